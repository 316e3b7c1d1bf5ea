// SPDX-License-Identifier: Apache-2.0
/*
 * One rank of the baseline: Open MPI's all-reduce of float32. Arguments: bytes, iterations and warm-up of
 * each case. Timed as by our own worker: every iteration starts from a barrier, the slowest rank's time
 * counts.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static double timed(float *vector, int count, int ranks)
{
	double begin, elapsed, slowest;

	for (int i = 0; i < count; i++)
		vector[i] = 1;
	MPI_Barrier(MPI_COMM_WORLD);
	begin = MPI_Wtime();
	MPI_Allreduce(MPI_IN_PLACE, vector, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	elapsed = MPI_Wtime() - begin;
	if (vector[0] != ranks || vector[count - 1] != ranks) {
		fprintf(stderr, "wrong sum\n");
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	MPI_Allreduce(&elapsed, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return slowest;
}

static void run_case(long bytes, int iterations, int warmup, int rank, int ranks)
{
	int count = bytes / sizeof(float);
	float *vector = malloc(count * sizeof(float));

	if (!vector || count < 1)
		MPI_Abort(MPI_COMM_WORLD, 1);
	if (!rank)
		printf("{\"bytes\": %ld, \"times_s\": [", bytes);
	for (int i = -warmup; i < iterations; i++) {
		double slowest = timed(vector, count, ranks);

		if (!rank && i >= 0)
			printf("%s%.9f", i ? ", " : "", slowest);
	}
	if (!rank)
		printf("]}\n");
	free(vector);
}

int main(int argc, char **argv)
{
	int rank, ranks;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	for (int i = 1; i + 2 < argc; i += 3)
		run_case(atol(argv[i]), atoi(argv[i + 1]), atoi(argv[i + 2]), rank, ranks);
	MPI_Finalize();
	return 0;
}
