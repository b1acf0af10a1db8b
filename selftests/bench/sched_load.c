// SPDX-License-Identifier: GPL-2.0
/*
 * sched_load - scheduler loads of a fixed amount of work, for exact counts
 *
 *	sched_load [-r ID] pipe PAIRS LOOPS	two processes each hand a byte back and forth
 *	sched_load [-r ID] threads PAIRS LOOPS	the same with threads of one process
 *	sched_load [-r ID] nice PAIRS LOOPS	the same at nice -10, -5, 0, 5, 10, 15
 *	sched_load [-r ID] groups PAIRS LOOPS	the same, spread over eight cgroups
 *						three levels deep
 *	sched_load [-r ID] yield TASKS LOOPS	sched_yield()
 *	sched_load [-r ID] exec LOOPS		spawn /bin/true and wait for it
 *	sched_load [-r ID] messaging GROUPS LOOPS	10 senders, 10 receivers and a
 *						pipe each, as perf bench sched messaging
 *
 * With -m MODULE in front, that module is loaded when all tasks exist, before the
 * region opens (sched_fields.ko tells where their sched_entities are).
 *
 * With -r the region ID of scripts/kcount.c is open from the moment when all
 * tasks exist and are about to begin until the last has done its work: neither
 * fork nor exit of the tasks is in it. Everything runs on CPU 0.
 *
 * Exit status: 0; 2 with one line on stderr if something could not be set up.
 *
 * Build: cc -static -no-pie -pthread -O2 sched_load.c
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROI_RUNTIME
#include "roi.h"

#define MAX_TASKS	1024
#define CGROUPS		8
#define FANOUT		10	/* senders and receivers of a messaging group */

static int gate[2], done[2], quit[2];
static unsigned int ntasks;
static int region = -1;
static int threads;		/* tasks are threads, not processes */

static void die(const char *what)
{
	fprintf(stderr, "sched_load: %s: %s\n", what, errno ? strerror(errno) : "bad argument");
	signal(SIGTERM, SIG_IGN);
	kill(0, SIGTERM);	/* the tasks that exist already */
	_exit(2);
}

static unsigned int number(const char *s, unsigned int max)
{
	char *end;
	unsigned long v = strtoul(s, &end, 10);

	errno = 0;
	if (s[0] < '0' || s[0] > '9' || *end || v > max)
		die(s);
	return (unsigned int)v;
}

static void pipe_or_die(int fd[2])
{
	if (pipe(fd))
		die("pipe");
}

static void put(int fd)
{
	char c = 0;

	if (write(fd, &c, 1) != 1)
		_exit(2);
}

static void get(int fd)
{
	char c;

	if (read(fd, &c, 1) != 1)
		_exit(2);
}

struct task {
	void (*work)(const struct task *t);
	unsigned int loops;
	int in, out;
};

static void ping(const struct task *t)
{
	for (unsigned int i = 0; i < t->loops; i++) {
		put(t->out);
		get(t->in);
	}
}

static void pong(const struct task *t)
{
	for (unsigned int i = 0; i < t->loops; i++) {
		get(t->in);
		put(t->out);
	}
}

static void yield(const struct task *t)
{
	for (unsigned int i = 0; i < t->loops; i++)
		sched_yield();
}

/* A sender's out is the first of its group's pipes, the others follow by two. */
static void send_all(const struct task *t)
{
	char msg[100] = "";

	for (unsigned int i = 0; i < t->loops; i++)
		for (int r = 0; r < FANOUT; r++)
			if (write(t->out + 2 * r, msg, sizeof(msg)) != sizeof(msg))
				_exit(2);
}

static void receive_all(const struct task *t)
{
	char msg[100];
	size_t have = 0, all = sizeof(msg) * t->loops * FANOUT;

	while (have < all) {
		ssize_t n = read(t->in, msg, sizeof(msg));

		if (n <= 0)
			_exit(2);
		have += (size_t)n;
	}
}

static void exec_all(const struct task *t)
{
	char *argv[] = { (char *)"/bin/true", NULL };

	for (unsigned int i = 0; i < t->loops; i++) {
		int status;
		pid_t pid;

		if (posix_spawn(&pid, argv[0], NULL, NULL, argv, NULL) ||
		    waitpid(pid, &status, 0) != pid || status)
			_exit(2);
	}
}

static void *task(void *arg)
{
	const struct task *t = arg;

	put(done[1]);
	get(gate[0]);
	t->work(t);
	put(done[1]);
	get(quit[0]);
	return NULL;
}

static void start_thread(const struct task *t)
{
	static struct task copy[MAX_TASKS];
	pthread_attr_t attr;
	pthread_t id;

	copy[ntasks - 1] = *t;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	errno = pthread_create(&id, &attr, task, &copy[ntasks - 1]);
	if (errno)
		die("pthread_create");
}

/* Start a task that waits at the gate; group is where it goes, or NULL. */
static void start(const struct task *t, int nice, const char *group)
{
	struct task mine = *t;
	pid_t pid;
	char me[16];
	int fd;

	if (++ntasks > MAX_TASKS)
		die("too many tasks");
	if (threads) {
		start_thread(t);
		return;
	}
	pid = fork();
	if (pid < 0)
		die("fork");
	if (pid)
		return;
	close(quit[1]);
	if (setpriority(PRIO_PROCESS, 0, nice))
		die("setpriority");
	if (group) {
		fd = open(group, O_WRONLY);
		if (fd < 0)
			die(group);
		snprintf(me, sizeof(me), "%d", getpid());
		if (write(fd, me, strlen(me)) < 0)
			die(group);
		close(fd);
	}
	task(&mine);
	_exit(0);
}

static void start_pairs(unsigned int pairs, unsigned int loops, int nice, int groups)
{
	static const int nices[] = { -10, -5, 0, 5, 10, 15 };

	for (unsigned int i = 0; i < pairs; i++) {
		int to[2], from[2], n = nice ? nices[i % 6] : 0;
		char path[64];

		snprintf(path, sizeof(path), "/cgroup/%u/%u/%u/cgroup.procs",
			 i & 1, i >> 1 & 1, i >> 2 & 1);
		pipe_or_die(to);
		pipe_or_die(from);
		start(&(struct task){ ping, loops, from[0], to[1] }, n, groups ? path : NULL);
		start(&(struct task){ pong, loops, to[0], from[1] }, n, groups ? path : NULL);
	}
}

static void start_messaging(unsigned int groups, unsigned int loops)
{
	for (unsigned int g = 0; g < groups; g++) {
		int fd[FANOUT][2];

		for (int r = 0; r < FANOUT; r++) {
			pipe_or_die(fd[r]);
			if (fd[r][1] != fd[0][1] + 2 * r)
				die("pipes do not follow each other");
		}
		for (int r = 0; r < FANOUT; r++) {
			start(&(struct task){ receive_all, loops, fd[r][0], -1 }, 0, NULL);
			start(&(struct task){ send_all, loops, -1, fd[0][1] }, 0, NULL);
		}
	}
}

static void load(const char *module)
{
	int fd = open(module, O_RDONLY);

	if (fd < 0 || syscall(SYS_finit_module, fd, "", 0))
		die(module);
	close(fd);
}

static void control(const char *dir)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/cgroup.subtree_control", dir);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, "+cpu", 4) != 4)
		die(path);
	close(fd);
}

static void make_groups(void)
{
	char path[64];

	if (mkdir("/cgroup", 0755) && errno != EEXIST)
		die("/cgroup");
	if (mount("cgroup2", "/cgroup", "cgroup2", 0, NULL) && errno != EBUSY)
		die("mount cgroup2");
	control("/cgroup");
	for (int i = 0; i < CGROUPS; i++) {
		snprintf(path, sizeof(path), "/cgroup/%d", i & 1);
		if (!mkdir(path, 0755))
			control(path);
		snprintf(path, sizeof(path), "/cgroup/%d/%d", i & 1, i >> 1 & 1);
		if (!mkdir(path, 0755))
			control(path);
		snprintf(path, sizeof(path), "/cgroup/%d/%d/%d", i & 1, i >> 1 & 1, i >> 2 & 1);
		if (mkdir(path, 0755) && errno != EEXIST)
			die(path);
	}
}

int main(int argc, char **argv)
{
	const char *module = NULL;
	unsigned int a, b = 0;
	cpu_set_t cpu;

	if (argc > 3 && !strcmp(argv[1], "-m")) {
		module = argv[2];
		argv += 2;
		argc -= 2;
	}
	if (argc > 3 && !strcmp(argv[1], "-r")) {
		region = (int)number(argv[2], ROI_IDS - 1);
		argv += 2;
		argc -= 2;
	}
	if (argc < 3 || argc > 4)
		die("usage: sched_load [-m MODULE] [-r ID] KIND N [LOOPS], see its head");
	a = number(argv[2], 1000000);
	if (argc == 4)
		b = number(argv[3], 1000000);
	setpgid(0, 0);
	CPU_ZERO(&cpu);
	CPU_SET(0, &cpu);
	if (sched_setaffinity(0, sizeof(cpu), &cpu))
		die("sched_setaffinity");
	pipe_or_die(gate);
	pipe_or_die(done);
	pipe_or_die(quit);

	threads = !strcmp(argv[1], "threads");
	if (threads || !strcmp(argv[1], "pipe")) {
		start_pairs(a, b, 0, 0);
	} else if (!strcmp(argv[1], "nice")) {
		start_pairs(a, b, 1, 0);
	} else if (!strcmp(argv[1], "groups")) {
		make_groups();
		start_pairs(a, b, 0, 1);
	} else if (!strcmp(argv[1], "messaging")) {
		start_messaging(a, b);
	} else if (!strcmp(argv[1], "exec")) {
		start(&(struct task){ exec_all, a, -1, -1 }, 0, NULL);
	} else if (!strcmp(argv[1], "yield")) {
		for (unsigned int i = 0; i < a; i++)
			start(&(struct task){ yield, b, -1, -1 }, 0, NULL);
	} else {
		errno = 0;
		die(argv[1]);
	}

	if (!threads)
		close(done[1]);	/* the last task's death ends our read */
	for (unsigned int i = 0; i < ntasks; i++)
		get(done[0]);
	if (module)
		load(module);
	if (region >= 0)
		roi_mark((unsigned int)region, 0);
	for (unsigned int i = 0; i < ntasks; i++)
		put(gate[1]);
	for (unsigned int i = 0; i < ntasks; i++)
		get(done[0]);
	if (region >= 0)
		roi_mark((unsigned int)region, 1);

	if (!threads)
		close(quit[0]);
	for (unsigned int i = 0; i < ntasks; i++)
		put(quit[1]);
	for (unsigned int i = 0; i < ntasks && !threads; i++) {
		int status;

		errno = 0;
		if (wait(&status) < 0 || status)
			die("a task did not end well");
	}
	return 0;
}
