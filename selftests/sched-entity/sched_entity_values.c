// SPDX-License-Identifier: GPL-2.0-only
/*
 * What /proc/PID/sched says of a task's scheduling entity stays right when the
 * task migrates, changes its nice value, changes its cgroup, or forks.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kselftest_harness.h"

#define MOVES	20

/* A value of /proc/PID/sched; times are in ms. -1e300 if it is not there. */
static double value(pid_t pid, const char *name)
{
	char path[64], line[256];
	size_t n = strlen(name);
	double v = -1e300;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/sched", pid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, n) && (line[n] == ' ' || line[n] == ':'))
			v = strtod(strchr(line + n, ':') + 1, NULL);
	if (f)
		fclose(f);
	return v;
}

static double cpu_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void burn(double ms)
{
	double end = cpu_ms() + ms;

	while (cpu_ms() < end)
		;
}

/* Leave the CPU, so that the entity's times are brought up to date. */
static void rest(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

static int pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

FIXTURE(values)
{
	cpu_set_t before;	/* where we were allowed to run */
	int cpu[2];		/* two CPUs, the second -1 if there is one only */
	int nice;
};

FIXTURE_SETUP(values)
{
	int n = 0;

	self->cpu[0] = -1;
	self->cpu[1] = -1;
	self->nice = getpriority(PRIO_PROCESS, 0);
	ASSERT_EQ(0, sched_getaffinity(0, sizeof(self->before), &self->before));
	for (int i = 0; i < CPU_SETSIZE && n < 2; i++)
		if (CPU_ISSET(i, &self->before))
			self->cpu[n++] = i;
	if (access("/proc/self/sched", R_OK))
		SKIP(return, "no /proc/PID/sched");
	ASSERT_EQ(0, pin(self->cpu[0]));
}

FIXTURE_TEARDOWN(values)
{
	setpriority(PRIO_PROCESS, 0, self->nice);
	sched_setaffinity(0, sizeof(self->before), &self->before);
}

TEST_F(values, migrations_are_counted)
{
	double before = value(getpid(), "se.nr_migrations");

	if (self->cpu[1] < 0)
		SKIP(return, "needs two CPUs");
	for (int i = 1; i <= MOVES; i++)
		ASSERT_EQ(0, pin(self->cpu[i & 1]));
	EXPECT_EQ(before + MOVES, value(getpid(), "se.nr_migrations"));
}

TEST_F(values, a_child_starts_at_zero)
{
	int status, fd[2];
	double sum, child[2];
	pid_t pid;

	if (self->cpu[1] >= 0) {
		ASSERT_EQ(0, pin(self->cpu[1]));
		ASSERT_EQ(0, pin(self->cpu[0]));
		EXPECT_LE(1, value(getpid(), "se.nr_migrations"));
	}
	burn(300);
	rest();
	sum = value(getpid(), "se.sum_exec_runtime");
	ASSERT_EQ(0, pipe(fd));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		child[0] = value(getpid(), "se.nr_migrations");
		child[1] = value(getpid(), "se.sum_exec_runtime");
		_exit(write(fd[1], child, sizeof(child)) != sizeof(child));
	}
	ASSERT_EQ((ssize_t)sizeof(child), read(fd[0], child, sizeof(child)));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, child[0]);
	EXPECT_LE(0, child[1]);
	EXPECT_LT(child[1], sum / 2);
	close(fd[0]);
	close(fd[1]);
}

TEST_F(values, runtime_is_that_of_the_cpu_clock)
{
	double low, sum, high;

	for (int i = 0; i < 5; i++) {
		burn(20);
		low = cpu_ms();
		rest();		/* accounts all up to here */
		sum = value(getpid(), "se.sum_exec_runtime");
		high = cpu_ms();
		EXPECT_LE(low, sum + 0.001);
		EXPECT_LE(sum, high + 0.001);
		if (self->cpu[1] >= 0)
			ASSERT_EQ(0, pin(self->cpu[i & 1]));
	}
}

/* A task alone in its place ages by its time times 1024, over its weight. */
TEST_F(values, vruntime_goes_by_the_weight)
{
	static const struct { int nice; double weight; } table[] = {
		{ 0, 1024 }, { 5, 335 }, { 19, 15 },
	};
	double unit = sizeof(long) == 8 ? 1024 : 1;

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		double v[2], t[2], want, got;

		if (table[i].nice < self->nice)
			continue;
		ASSERT_EQ(0, setpriority(PRIO_PROCESS, 0, table[i].nice));
		EXPECT_EQ(table[i].weight * unit, value(getpid(), "se.load.weight"));
		burn(20);	/* both pairs are read at the same lag behind the tick */
		v[0] = value(getpid(), "se.vruntime");
		t[0] = value(getpid(), "se.sum_exec_runtime");
		burn(400);
		v[1] = value(getpid(), "se.vruntime");
		t[1] = value(getpid(), "se.sum_exec_runtime");
		want = (t[1] - t[0]) * 1024 / table[i].weight;
		got = v[1] - v[0];
		EXPECT_LT(0, got);
		/* a tick may fall between two of the readings */
		EXPECT_LT(want * 0.85, got)
			TH_LOG("nice %d: vruntime +%f ms for +%f ms", table[i].nice,
			       got, t[1] - t[0]);
		EXPECT_GT(want * 1.15, got)
			TH_LOG("nice %d: vruntime +%f ms for +%f ms", table[i].nice,
			       got, t[1] - t[0]);
	}
}

static int put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -1;
	n = write(fd, text, strlen(text));
	close(fd);
	return n == (ssize_t)strlen(text) ? 0 : -1;
}

TEST_F(values, a_cgroup_move_keeps_them)
{
	static const char * const root = "/tmp/sched_entity_values.test";
	char me[16];
	double n, sum, last;

	mkdir("/tmp", 01777);
	if (geteuid() || unshare(CLONE_NEWNS) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		SKIP(return, "needs root to mount");
	if ((mkdir(root, 0700) && errno != EEXIST) || mount("none", root, "cgroup2", 0, NULL))
		SKIP(return, "no cgroup2 (CONFIG_CGROUPS is not set?)");
	ASSERT_EQ(0, chdir(root));
	if (put("cgroup.subtree_control", "+cpu") || (mkdir("entity", 0700) && errno != EEXIST)) {
		chdir("/");
		umount2(root, MNT_DETACH);
		SKIP(return, "no cpu controller (CONFIG_CGROUP_SCHED is not set?)");
	}
	snprintf(me, sizeof(me), "%d", getpid());
	burn(50);
	rest();
	n = value(getpid(), "se.nr_migrations");
	last = value(getpid(), "se.sum_exec_runtime");
	for (int i = 0; i < MOVES; i++) {
		EXPECT_EQ(0, put(i & 1 ? "cgroup.procs" : "entity/cgroup.procs", me));
		burn(2);
		rest();
		sum = value(getpid(), "se.sum_exec_runtime");
		EXPECT_LE(last + 2, sum);
		last = sum;
	}
	EXPECT_LE(last, cpu_ms());
	EXPECT_EQ(n, value(getpid(), "se.nr_migrations"));
	EXPECT_EQ(0, rmdir("entity"));
	chdir("/");
	umount2(root, MNT_DETACH);
	rmdir(root);
}

TEST_HARNESS_MAIN
