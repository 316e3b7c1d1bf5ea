/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the programs of this package: errors, namespaces, scheduling, privileges, background. */
#pragma once

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "wire/types.h"

#define NS_PER_S 1000000000ULL

/* Real-time priorities: processes that emulate the network go before those that measure it. */
enum { TRAFFIC_PRIORITY = 1, NETWORK_PRIORITY };

static inline u64 now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (u64)now.tv_sec * NS_PER_S + (u64)now.tv_nsec;
}

static inline void __attribute__((noreturn)) fail(const char *wish, const char *subject)
{
	fprintf(stderr, "cannot %s %s: %s\n", wish, subject, strerror(errno));
	exit(1);
}

/* Moves this thread into a network namespace, by its name in `ip netns`. */
static inline void enter(const char *name)
{
	char path[128];
	int length = snprintf(path, sizeof(path), "/run/netns/%s", name);

	if (length < 0 || (size_t)length >= sizeof(path)) {
		errno = ENAMETOOLONG;
		fail("enter", name);
	}
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET) < 0)
		fail("enter", name);
	close(fd);
}

static inline void open_many_files(void)
{
	struct rlimit files;

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
}

/*
 * Real-time scheduling: a delay of this process would be a fault of the emulated network. It sleeps when
 * idle, and the kernel reserves a share for others. Where real time is not permitted, the highest nice level:
 * of the process, and of its session, where sessions share the processor as groups (autogroup).
 */
static inline void go_first(int priority)
{
	static const char niceness[] = "-20";
	const struct sched_param first = {.sched_priority = priority};

	if (sched_setscheduler(0, SCHED_RR, &first) == 0)
		return;
	setpriority(PRIO_PROCESS, 0, -20);
	int group = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
	if (group < 0)
		return;
	if (write(group, niceness, sizeof(niceness) - 1) < 0)
		errno = 0; /* optional */
	close(group);
}

/*
 * Gives up all capabilities for good, also those that a program would get by execve(). Sockets, maps and
 * real-time priority that the process has already stay as they are: what handles frames from the network
 * needs no more. Without CAP_SETPCAP the bounding set stays, and no_new_privs alone limits execve().
 */
static inline void drop_privileges(void)
{
	struct __user_cap_header_struct self = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};
	unsigned long capability = 0;

	while (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0)
		capability++; /* EINVAL after the last that this kernel has */
	if (errno != EINVAL && errno != EPERM)
		fail("drop", "the bounding set");
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
	    syscall(SYS_capset, &self, none) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		fail("drop", "capabilities");
}

/* Lets the parent process exit with success: everything is ready. The child continues, without privileges. */
static inline void go_on_in_background(const char *name)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	pid_t child = fork();

	if (null < 0 || child < 0 || chdir("/") < 0)
		fail("continue", "in the background");
	if (child)
		_exit(0);
	setsid();
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	prctl(PR_SET_NAME, name);
	prctl(PR_SET_TIMERSLACK, 1);
	go_first(NETWORK_PRIORITY);
	drop_privileges();
}
