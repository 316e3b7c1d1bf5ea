// SPDX-License-Identifier: Apache-2.0
#include "predict/fluid/program.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MOST_SEGMENTS 0x7fffffffU

/* The end of the longest run of whole chunks from cut `from`: at most `chunk` elements, not beyond `end`. */
static u32 run_end(const struct program_input *in, u32 from, u32 end)
{
	u64 limit = in->cut[from] + in->chunk;
	u32 low = from + 1, high = end;

	while (low < high) {
		u32 middle = low + (high - low + 1) / 2;

		if (in->cut[middle] <= limit)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

static bool is_consistent(const struct program_input *in)
{
	for (u32 i = 0; i < in->transfers; i++) {
		if (in->src[i] >= in->ranks || in->dst[i] >= in->ranks || in->order[i] >= in->transfers)
			return false;
		if (in->begin[i] >= in->end[i] || in->end[i] >= in->cuts)
			return false;
		if (i && in->step[i] < in->step[i - 1])
			return false;
	}
	return in->chunk > 0;
}

static u32 segments_of(const struct program_input *in, u32 transfer)
{
	u32 count = 0;

	for (u32 from = in->begin[transfer]; from < in->end[transfer]; count++)
		from = run_end(in, from, in->end[transfer]);
	return count;
}

u64 program_count(const struct program_input *in)
{
	u64 count = 0;

	if (!is_consistent(in))
		return 0;
	for (u32 i = 0; i < in->transfers; i++)
		count += segments_of(in, i);
	return count <= MOST_SEGMENTS ? count : 0;
}

void program_firsts(const struct program_input *in, u32 *first)
{
	u32 next = 0;

	for (u32 i = 0; i < in->transfers; i++) {
		first[in->order[i]] = next;
		next += segments_of(in, in->order[i]);
	}
	first[in->transfers] = next;
}

/* What is known of one rank while its events are gone through in order. */
struct chain {
	struct program *program;
	u32 *receive; /* by chunk: the last segment received into it */
	u32 *reader;  /* by chunk: the last read since then, an index of the next two */
	u32 *read_by, *read_before;
	u32 reads, reads_allocated;
	bool failed;
};

static bool grow(u32 **array, u32 allocated)
{
	u32 *larger = realloc(*array, (size_t)allocated * sizeof(**array));

	if (larger)
		*array = larger;
	return larger;
}

static void add_edge(struct chain *chain, u32 event, u32 gate)
{
	struct program *program = chain->program;

	if (program->edges == program->edges_allocated) {
		u32 more = program->edges_allocated < PROGRAM_NONE / 2 ? 2 * program->edges_allocated : 0;

		if (!more || !grow(&program->edge_next, more) || !grow(&program->edge_gate, more)) {
			chain->failed = true;
			return;
		}
		program->edges_allocated = more;
	}
	program->edge_next[program->edges] = program->first[event];
	program->edge_gate[program->edges] = gate;
	program->first[event] = program->edges++;
	program->waits[gate]++;
}

static void add_read(struct chain *chain, u32 chunk, u32 segment)
{
	if (chain->reads == chain->reads_allocated) {
		u32 more = 2 * chain->reads_allocated;

		if (!grow(&chain->read_by, more) || !grow(&chain->read_before, more)) {
			chain->failed = true;
			return;
		}
		chain->reads_allocated = more;
	}
	chain->read_by[chain->reads] = segment;
	chain->read_before[chain->reads] = chain->reader[chunk];
	chain->reader[chunk] = chain->reads++;
}

/* Equal events follow each other, so it suffices to compare with the previous one; a repetition is harmless.
 */
static void add_send(struct chain *chain, u32 segment, u32 from, u32 to)
{
	u32 previous = PROGRAM_NONE;

	for (u32 chunk = from; chunk < to && !chain->failed; chunk++) {
		u32 before = chain->receive[chunk];

		if (before != PROGRAM_NONE && before != previous)
			add_edge(chain, 2 * before + 1, 2 * segment);
		previous = before;
		add_read(chain, chunk, segment);
	}
}

static void add_receive(struct chain *chain, u32 segment, u32 from, u32 to)
{
	u32 previous = PROGRAM_NONE, previous_reader = PROGRAM_NONE;

	for (u32 chunk = from; chunk < to && !chain->failed; chunk++) {
		u32 before = chain->receive[chunk], reader = chain->reader[chunk];

		if (before != PROGRAM_NONE && before != previous)
			add_edge(chain, 2 * before + 1, 2 * segment + 1);
		previous = before;
		for (u32 read = reader; read != PROGRAM_NONE; read = chain->read_before[read]) {
			if (read == reader && chain->read_by[read] == previous_reader)
				continue;
			add_edge(chain, 2 * chain->read_by[read], 2 * segment + 1);
		}
		previous_reader = reader == PROGRAM_NONE ? PROGRAM_NONE : chain->read_by[reader];
		chain->reader[chunk] = PROGRAM_NONE;
		chain->receive[chunk] = segment;
	}
}

static void add_transfer(struct chain *chain, const struct program_input *in, u32 transfer, u32 first,
			 bool sends)
{
	u32 end = in->end[transfer];

	for (u32 from = in->begin[transfer], to; from < end; from = to) {
		to = run_end(in, from, end);
		if (sends)
			add_send(chain, first, from, to);
		else
			add_receive(chain, first, from, to);
		chain->program->elements[first++] = (u32)(in->cut[to] - in->cut[from]);
	}
}

/* Rows of `transfers` numbers by rank, in the order of the schedule. */
struct rows {
	u32 *first, *row;
};

static bool group(struct rows *rows, const u32 *rank, u32 ranks, u32 transfers)
{
	rows->first = calloc((size_t)ranks + 2, sizeof(u32));
	rows->row = malloc(((size_t)transfers + 1) * sizeof(u32));
	if (!rows->first || !rows->row)
		return false;
	for (u32 i = 0; i < transfers; i++)
		rows->first[rank[i] + 2]++;
	for (u32 r = 0; r < ranks; r++)
		rows->first[r + 2] += rows->first[r + 1];
	for (u32 i = 0; i < transfers; i++)
		rows->row[rows->first[rank[i] + 1]++] = i;
	return true;
}

/* A rank's events in order: of one step, what it sends before what it receives. */
static void chain_rank(struct chain *chain, const struct program_input *in, const struct rows *sent,
		       const struct rows *received, const u32 *first, u32 rank)
{
	u32 s = sent->first[rank], s_end = sent->first[rank + 1];
	u32 r = received->first[rank], r_end = received->first[rank + 1];

	memset(chain->receive, 0xff, (size_t)in->cuts * sizeof(u32));
	memset(chain->reader, 0xff, (size_t)in->cuts * sizeof(u32));
	chain->reads = 0;
	while ((s < s_end || r < r_end) && !chain->failed) {
		bool sends =
			r == r_end || (s < s_end && in->step[sent->row[s]] <= in->step[received->row[r]]);
		u32 transfer = sends ? sent->row[s++] : received->row[r++];

		add_transfer(chain, in, transfer, first[transfer], sends);
	}
}

static bool chain_all(struct program *program, const struct program_input *in)
{
	struct chain chain = {.program = program, .reads_allocated = 1024};
	struct rows sent = {0}, received = {0};
	u32 *first = malloc(((size_t)in->transfers + 1) * sizeof(u32));

	chain.receive = malloc((size_t)in->cuts * sizeof(u32) + 1);
	chain.reader = malloc((size_t)in->cuts * sizeof(u32) + 1);
	chain.read_by = malloc(chain.reads_allocated * sizeof(u32));
	chain.read_before = malloc(chain.reads_allocated * sizeof(u32));
	chain.failed = !group(&sent, in->src, in->ranks, in->transfers) ||
		       !group(&received, in->dst, in->ranks, in->transfers) || !first || !chain.receive ||
		       !chain.reader || !chain.read_by || !chain.read_before;
	if (!chain.failed)
		program_firsts(in, first);
	for (u32 rank = 0; rank < in->ranks && !chain.failed; rank++)
		chain_rank(&chain, in, &sent, &received, first, rank);
	free(first);
	free(chain.receive);
	free(chain.reader);
	free(chain.read_by);
	free(chain.read_before);
	free(sent.first);
	free(sent.row);
	free(received.first);
	free(received.row);
	return !chain.failed;
}

struct program *program_open(const struct program_input *in)
{
	struct program *program = calloc(1, sizeof(*program));
	size_t segments = program_count(in);

	if (!program)
		return NULL;
	program->segments = (u32)segments;
	program->edges_allocated = 1024;
	program->elements = calloc(segments + 1, sizeof(u32));
	program->waits = calloc(2 * segments + 1, sizeof(u32));
	program->first = malloc((2 * segments + 1) * sizeof(u32));
	program->edge_next = malloc(program->edges_allocated * sizeof(u32));
	program->edge_gate = malloc(program->edges_allocated * sizeof(u32));
	if (program->first)
		memset(program->first, 0xff, (2 * segments + 1) * sizeof(u32));
	if (!program->elements || !program->waits || !program->first || !program->edge_next ||
	    !program->edge_gate || (segments && !chain_all(program, in))) {
		program_close(program);
		return NULL;
	}
	return program;
}

void program_close(struct program *program)
{
	if (!program)
		return;
	free(program->elements);
	free(program->waits);
	free(program->first);
	free(program->edge_next);
	free(program->edge_gate);
	free(program);
}
