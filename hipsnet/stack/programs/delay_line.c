// SPDX-License-Identifier: Apache-2.0
/*
 * The delay line: holds the frames of delayed cables until they are due. One process per fabric.
 *
 * The XDP program of a delayed port writes every frame that arrives, with the time at which it is due, into a
 * BPF ring buffer. The ring is the queue: frames stay in order, and memory is bounded. This process reads
 * each ring at the pace of those times and sends its frames again through the other end of the cable, past
 * the queueing discipline, with a tag by which the program recognizes them. It copies nothing and has no
 * state: a new process continues where a killed one stopped.
 *
 * Usage: hipsnet-delay-line FABRIC {RING NAMESPACE IFINDEX}...
 * RING is the id of a port's ring; IFINDEX in /run/netns/NAMESPACE is the interface at the other end of the
 * cable. Forks into the background, without privileges, when it is ready.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "programs/background.h"

#include "delay_record.h"

#define NEVER           UINT64_MAX
#define RETRY_NS        50000ULL /* when the interface is full */
#define FRAMES_PER_TURN 64       /* of one ring */
#define MAC_BYTES       (2 * ETH_ALEN)

/* One direction of a cable. Positions count bytes from the ring's beginning and never wrap. */
struct line {
	u64 *consumer;
	const u64 *producer;
	const u8 *data; /* mapped twice in a row, so that no record is split */
	u64 size;
	int socket;
};

static u64 number(const char *text)
{
	char *end;

	errno = 0;
	u64 value = strtoull(text, &end, 10);
	if (!errno && (*end || end == text))
		errno = EINVAL;
	if (errno)
		fail("read the number", text);
	return value;
}

static int bpf_call(int command, union bpf_attr *attributes)
{
	return (int)syscall(SYS_bpf, command, attributes, sizeof(*attributes));
}

static int open_ring(const char *id, u64 *size)
{
	struct bpf_map_info info = {0};
	union bpf_attr by_id = {.map_id = (u32)number(id)};
	int fd = bpf_call(BPF_MAP_GET_FD_BY_ID, &by_id);
	union bpf_attr about = {
		.info.bpf_fd = (u32)fd,
		.info.info_len = sizeof(info),
		.info.info = (u64)(unsigned long)&info,
	};

	if (fd < 0 || bpf_call(BPF_OBJ_GET_INFO_BY_FD, &about) < 0)
		fail("open the ring", id);
	if (info.type != BPF_MAP_TYPE_RINGBUF) {
		errno = EINVAL;
		fail("read as a ring the map", id);
	}
	*size = info.max_entries;
	return fd;
}

static void map_ring(struct line *line, int fd, const char *id)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *own = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	void *theirs = mmap(NULL, page + 2 * line->size, PROT_READ, MAP_SHARED, fd, (off_t)page);

	if (own == MAP_FAILED || theirs == MAP_FAILED)
		fail("map the ring", id);
	line->consumer = own;
	line->producer = theirs;
	line->data = (const u8 *)theirs + page;
}

/* A socket for sending only. The frames have passed the queueing discipline before. */
static int open_socket(const char *ifindex)
{
	struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = (int)number(ifindex)};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;

	if (fd < 0 || bind(fd, (struct sockaddr *)&to, sizeof(to)) < 0 ||
	    setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on)) < 0)
		fail("send by interface", ifindex);
	return fd;
}

static void open_line(struct line *line, char **arguments, int epoll)
{
	/* Edge-triggered: a ring is readable as long as it holds frames. */
	struct epoll_event news = {.events = EPOLLIN | EPOLLET};
	int ring = open_ring(arguments[0], &line->size);

	map_ring(line, ring, arguments[0]);
	enter(arguments[1]);
	line->socket = open_socket(arguments[2]);
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, ring, &news) < 0)
		fail("wait for the ring", arguments[0]);
}

/* Sends a frame with its tag; false: try again. If the cable is down, the frame is lost. */
static bool send_frame(const struct line *line, const struct held *held)
{
	u16 tag[] = {htons(ETH_P_8021Q), htons(DELAY_VID)};
	struct iovec parts[] = {
		{(void *)held->frame, MAC_BYTES},
		{tag, sizeof(tag)},
		{(void *)(held->frame + MAC_BYTES), held->bytes - MAC_BYTES},
	};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = sizeof(parts) / sizeof(parts[0])};

	if (sendmsg(line->socket, &message, 0) >= 0)
		return true;
	if (errno == ENXIO || errno == ENODEV)
		fail("send", "by an interface that is gone");
	return errno != EAGAIN && errno != ENOBUFS && errno != EINTR;
}

/* The frame of a record; NULL if the record is discarded or malformed. */
static const struct held *held_in(const u8 *record, u32 length)
{
	const struct held *held = (const struct held *)(record + BPF_RINGBUF_HDR_SZ);

	if (length & BPF_RINGBUF_DISCARD_BIT || length < sizeof(*held))
		return NULL;
	return held->bytes >= ETH_HLEN && held->bytes <= length - sizeof(*held) ? held : NULL;
}

/* Sends the frames that are due; returns when the next frame is due, NEVER if the ring is empty (epoll
 * reports it). */
static u64 send_due(struct line *line, u64 now)
{
	u64 position = __atomic_load_n(line->consumer, __ATOMIC_RELAXED);

	for (int frames = 0; frames < FRAMES_PER_TURN; frames++) {
		if (position >= __atomic_load_n(line->producer, __ATOMIC_ACQUIRE))
			return NEVER;
		const u8 *record = line->data + (position & (line->size - 1));
		u32 length = __atomic_load_n((const u32 *)record, __ATOMIC_ACQUIRE);
		if (length & BPF_RINGBUF_BUSY_BIT)
			return NEVER;

		const struct held *held = held_in(record, length);
		if (held && held->due_ns > now)
			return held->due_ns;
		if (held && !send_frame(line, held))
			return now + RETRY_NS;
		u64 bytes = BPF_RINGBUF_HDR_SZ + (length & ~BPF_RINGBUF_DISCARD_BIT);
		position += (bytes + 7) & ~7ULL;
		/* Ordered with the loads above: the kernel notifies a consumer only if it has read
		 * everything. */
		__atomic_store_n(line->consumer, position, __ATOMIC_SEQ_CST);
	}
	return now;
}

static void run(struct line *lines, int count, int epoll)
{
	for (;;) {
		u64 now = now_ns(), next = NEVER;

		for (int i = 0; i < count; i++) {
			u64 due = send_due(&lines[i], now);

			next = due < next ? due : next;
		}
		now = now_ns();
		u64 left = next > now ? next - now : 0;
		struct timespec wait = {.tv_sec = (time_t)(left / NS_PER_S),
					.tv_nsec = (long)(left % NS_PER_S)};
		struct epoll_event news[64];

		if (epoll_pwait2(epoll, news, 64, next == NEVER ? NULL : &wait, NULL) < 0 && errno != EINTR)
			exit(1);
	}
}

int main(int argc, char **argv)
{
	int count = (argc - 2) / 3, epoll = epoll_create1(EPOLL_CLOEXEC);
	struct line *lines = calloc(count > 0 ? (size_t)count : 1, sizeof(*lines));

	if (count < 1 || argc != 2 + 3 * count) {
		fprintf(stderr, "usage: %s FABRIC {RING NAMESPACE IFINDEX}...\n", argv[0]);
		return 2;
	}
	if (epoll < 0 || !lines)
		fail("begin with", argv[1]);
	open_many_files();
	for (int i = 0; i < count; i++)
		open_line(&lines[i], &argv[2 + 3 * i], epoll);
	go_on_in_background("delay-line");
	run(lines, count, epoll);
}
