// SPDX-License-Identifier: Apache-2.0
/* The memory that sockets receive into and send from, and its free chunks. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "xsk/memory.h"

static u32 frame_chunks(u32 frame_bytes)
{
	return (frame_bytes + XSK_CHUNK_BYTES - 1) / XSK_CHUNK_BYTES;
}

static bool is_possible(const struct xsk_geometry *geometry)
{
	return geometry->receive_chunks >= 1 && geometry->receive_chunks <= 1 << 20 &&
	       geometry->send_frames <= 1 << 18 && geometry->frame_bytes >= 60 &&
	       geometry->frame_bytes <= XSK_MOST_BYTES;
}

static u64 bytes_of(const struct xsk_geometry *geometry)
{
	u64 chunks =
		geometry->receive_chunks + (u64)geometry->send_frames * frame_chunks(geometry->frame_bytes);

	return chunks * XSK_CHUNK_BYTES;
}

static void fill(struct xsk_stack *stack, u32 count)
{
	/* The first index is taken first. */
	for (u32 i = 0; i < count; i++)
		stack->numbers[i] = count - 1 - i;
	stack->count = count;
}

/* Everything but the UMEM, which the first socket creates. Owns the descriptor if it succeeds. */
static int make(struct xsk_memory **made, int fd, const struct xsk_geometry *geometry)
{
	struct xsk_memory *memory = calloc(1, sizeof(*memory));
	u64 bytes = bytes_of(geometry), chunks = bytes / XSK_CHUNK_BYTES;

	if (!memory)
		return -ENOMEM;
	memory->geometry = *geometry;
	memory->fd = fd;
	memory->bytes = bytes;
	memory->frame_chunks = frame_chunks(geometry->frame_bytes);
	memory->chunks.numbers = calloc(geometry->receive_chunks, sizeof(u32));
	memory->frames.numbers = calloc(geometry->send_frames + 1, sizeof(u32));
	memory->holder = calloc(chunks, 1);
	memory->unsent = calloc(geometry->send_frames + 1, 1);
	memory->area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (memory->area == MAP_FAILED || !memory->chunks.numbers || !memory->frames.numbers ||
	    !memory->holder || !memory->unsent) {
		memory->fd = -1;
		xsk_memory_close(memory);
		return -ENOMEM;
	}
	fill(&memory->chunks, geometry->receive_chunks);
	fill(&memory->frames, geometry->send_frames);
	*made = memory;
	return 0;
}

int xsk_memory_open(struct xsk_memory **memory, u32 receive_chunks, u32 send_frames, u32 frame_bytes)
{
	struct xsk_geometry geometry = {receive_chunks, send_frames, frame_bytes};

	if (!is_possible(&geometry))
		return -EINVAL;
	int fd = memfd_create("hipsnet-xsk", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	int error = ftruncate(fd, (off_t)bytes_of(&geometry)) ? -errno : make(memory, fd, &geometry);
	if (error)
		close(fd);
	return error;
}

int xsk_memory_adopt(struct xsk_memory **memory, int fd, struct xsk_geometry geometry)
{
	struct stat status;

	if (!is_possible(&geometry) || fstat(fd, &status) || (u64)status.st_size < bytes_of(&geometry))
		return -EINVAL;
	int own = dup(fd);
	if (own < 0)
		return -errno;
	int error = make(memory, own, &geometry);
	if (error)
		close(own);
	return error;
}

void xsk_memory_close(struct xsk_memory *memory)
{
	if (!memory)
		return;
	if (memory->umem)
		xsk_umem__delete(memory->umem);
	if (memory->area && memory->area != MAP_FAILED)
		munmap(memory->area, memory->bytes);
	if (memory->fd >= 0)
		close(memory->fd);
	free(memory->chunks.numbers);
	free(memory->frames.numbers);
	free(memory->holder);
	free(memory->unsent);
	free(memory);
}

int xsk_memory_fd(const struct xsk_memory *memory)
{
	return memory->fd;
}

u32 xsk_memory_free(const struct xsk_memory *memory)
{
	return memory->chunks.count;
}

void xsk_memory_release(struct xsk_memory *memory, const struct xsk_frame *frame)
{
	for (u32 i = 0; i < frame->count; i++)
		memory->chunks.numbers[memory->chunks.count++] =
			chunk_of(address_of(memory, frame->spans[i].data));
}

void xsk_memory_sent(struct xsk_memory *memory, u64 address)
{
	u32 chunk = chunk_of(address), first = memory->geometry.receive_chunks;

	memory->holder[chunk] = XSK_NOBODY;
	if (chunk < first) {
		memory->chunks.numbers[memory->chunks.count++] = chunk;
		return;
	}
	u32 frame = (chunk - first) / memory->frame_chunks;
	if (--memory->unsent[frame] == 0)
		memory->frames.numbers[memory->frames.count++] = frame;
}

u8 xsk_memory_enlist(struct xsk_memory *memory)
{
	for (u32 number = 1; number <= XSK_MOST_SOCKETS; number++) {
		if (!memory->taken[number]) {
			memory->taken[number] = true;
			memory->sockets++;
			return (u8)number;
		}
	}
	return XSK_NOBODY;
}

void xsk_memory_delist(struct xsk_memory *memory, u8 number)
{
	u64 chunks = memory->bytes / XSK_CHUNK_BYTES;

	for (u64 chunk = 0; chunk < chunks; chunk++)
		if (memory->holder[chunk] == number)
			xsk_memory_sent(memory, chunk * XSK_CHUNK_BYTES);
	memory->taken[number] = false;
	memory->sockets--;
}
