/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the sched_stat tests share: a trace instance of their own, the tasks
 * that they trace, and the oracle: what a task did as sched_switch and
 * sched_wakeup of the same trace tell it, which is what each sched_stat event
 * must agree with.
 */
#ifndef SCHED_STAT_H
#define SCHED_STAT_H

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS		1000000LL
#define SEC		1000000000LL
#define PREFIX		"sst"		/* of the names of all traced tasks */
#define TRACING		"/sys/kernel/tracing"
#define MODULE		"test_sched_stat"
#define PARAMETERS	"/sys/module/" MODULE "/parameters/"

/*
 * How far the best of clocks may be off: a virtual CPU that does not run for a
 * while between the runqueue's clock and the trace's. Never the rule.
 */
#define OUTLIER		(400 * MS)

static inline long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * SEC + t.tv_nsec;
}

static inline void sleep_ms(int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * MS };

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

static inline void spin_ms(int ms)
{
	long long end = now_ns() + ms * MS;

	while (now_ns() < end)
		;
}

static inline int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n;
	int err;

	if (fd < 0)
		return -errno;
	n = write(fd, text, strlen(text));
	err = n < 0 ? -errno : 0;
	close(fd);
	return err;
}

/* The whole file, to be freed; NULL if it cannot be read. */
static inline char *read_file(const char *path)
{
	size_t size = 0, len = 0;
	char *text = NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return NULL;
	for (;;) {
		ssize_t n;

		if (size - len < 65536) {
			char *more = realloc(text, size + 262144);

			if (!more)
				break;
			text = more;
			size += 262144;
		}
		n = read(fd, text + len, size - len - 1);
		if (n <= 0)
			break;
		len += n;
	}
	close(fd);
	if (text)
		text[len] = '\0';
	return text;
}

/* The number in a file; -1 if there is none. */
static inline long long read_number(const char *path)
{
	char *text = read_file(path);
	long long n = text && *text ? strtoll(text, NULL, 10) : -1;

	free(text);
	return n;
}

/* One number of /proc/PID/sched in nanoseconds; -1 if there is no such line. */
static inline long long proc_sched(pid_t pid, const char *name)
{
	char path[64], *text, *line, *colon;
	long long value = -1;

	snprintf(path, sizeof(path), "/proc/%d/sched", pid);
	text = read_file(path);
	for (line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, strlen(name)) || !strchr(" :", line[strlen(name)]))
			continue;
		colon = strchr(line, ':');
		if (colon) {
			long long whole, part = 0;
			char *end;

			whole = strtoll(colon + 1, &end, 10);
			if (*end == '.')
				part = strtoll(end + 1, NULL, 10);
			value = *end == '.' ? whole * 1000000 + part : whole;
		}
		break;
	}
	free(text);
	return value;
}

static inline int config_is(const char *option)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "zcat /proc/config.gz 2>/dev/null | grep -q '^%s'", option);
	return system(cmd) == 0;
}

static inline long long tick_ns(void)
{
	static const int hz[] = { 1000, 300, 250, 100 };
	char option[32];

	for (int i = 0; i < 4; i++) {
		snprintf(option, sizeof(option), "CONFIG_HZ=%d$", hz[i]);
		if (config_is(option))
			return SEC / hz[i];
	}
	return SEC / 100;
}

static inline int pin(pid_t pid, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(pid, sizeof(set), &set);
}

static inline int have_schedstats(void)
{
	return !access("/proc/sys/kernel/sched_schedstats", F_OK);
}

static inline int set_schedstats(int on)
{
	return write_file("/proc/sys/kernel/sched_schedstats", on ? "1" : "0");
}

/* The trace. */

struct trace {
	char dir[64];
	long long tick;
};

static inline int trace_file(struct trace *t, const char *file, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", t->dir, file);
	return write_file(path, text);
}

static inline int trace_event(struct trace *t, const char *event, int on)
{
	char path[96];

	snprintf(path, sizeof(path), "events/sched/%s/enable", event);
	return trace_file(t, path, on ? "1" : "0");
}

static inline int have_event(const char *event)
{
	char path[96];

	snprintf(path, sizeof(path), TRACING "/events/sched/%s/format", event);
	return !access(path, F_OK);
}

static inline void trace_mark(struct trace *t, const char *text)
{
	trace_file(t, "trace_marker", text);
}

static inline void trace_clear(struct trace *t)
{
	char path[96];
	int fd;

	snprintf(path, sizeof(path), "%s/trace", t->dir);
	fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
}

static const char * const stat_events[] = {
	"sched_stat_wait", "sched_stat_sleep", "sched_stat_iowait", "sched_stat_blocked",
};

/* Does the top instance listen, from the kernel's command line perhaps? */
static inline int others_listen(void)
{
	char *text = read_file(TRACING "/set_event");
	int yes = text && strstr(text, "sched:sched_stat_");

	free(text);
	return yes;
}

/* The first of the four that this kernel does not have, or NULL. */
static inline const char *missing_event(void)
{
	for (int i = 0; i < 4; i++)
		if (!have_event(stat_events[i]))
			return stat_events[i];
	return NULL;
}

/* All four on or off; the first error is returned. */
static inline int stat_all(struct trace *t, int on)
{
	int err = 0;

	for (int i = 0; i < 4; i++) {
		int e = trace_event(t, stat_events[i], on);

		err = err ? err : e;
	}
	return err;
}

/*
 * Why there can be no trace here, or NULL. The reason is one of the machine,
 * never that the events under test are missing.
 */
static inline const char *trace_open(struct trace *t)
{
	static const char * const base[][2] = {
		{ "sched_switch", "prev_comm ~ \"" PREFIX "*\" || next_comm ~ \"" PREFIX "*\"" },
		{ "sched_wakeup", "comm ~ \"" PREFIX "*\"" },
		{ "sched_wakeup_new", "comm ~ \"" PREFIX "*\"" },
	};
	char path[128];

	t->dir[0] = '\0';
	if (geteuid())
		return "needs root to trace";
	if (access(TRACING "/events", F_OK) &&
	    mount("tracefs", TRACING, "tracefs", 0, NULL) && errno != EBUSY)
		return "no tracefs (CONFIG_TRACING is not set?)";
	if (access(TRACING "/events/sched/sched_switch/enable", W_OK))
		return "no sched_switch event (CONFIG_EVENT_TRACING is not set?)";
	snprintf(t->dir, sizeof(t->dir), TRACING "/instances/sst-%d", getpid());
	if (mkdir(t->dir, 0700) && errno != EEXIST) {
		t->dir[0] = '\0';
		return "cannot make a trace instance";
	}
	/* both ends of a delay are a tick's when sched_clock() has no better */
	t->tick = tick_ns() + MS;
	trace_file(t, "buffer_size_kb", "4096");
	/* one clock for all CPUs: those of an unstable TSC may be ticks apart */
	trace_file(t, "trace_clock", "mono");
	for (int i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "events/sched/%s/filter", base[i][0]);
		if (trace_file(t, path, base[i][1]) || trace_event(t, base[i][0], 1))
			return "cannot enable sched_switch and sched_wakeup";
	}
	for (int i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "events/sched/%s/filter", stat_events[i]);
		trace_file(t, path, base[1][1]);	/* may not exist: seen later */
	}
	return NULL;
}

static inline void trace_close(struct trace *t)
{
	if (!t->dir[0])
		return;
	trace_file(t, "events/enable", "0");
	rmdir(t->dir);
}

enum event_type {
	SWITCH, WAKEUP, WAKEUP_NEW, MARK, STAT_WAIT, STAT_SLEEP, STAT_IOWAIT, STAT_BLOCKED,
};

struct event {
	long long ts, delay;
	enum event_type type;
	int pid, next;
	char state;		/* of the task that a switch leaves */
	char mark[16];
};

struct events {
	struct event *e;
	size_t nr;
	int lost;		/* by the ring buffer */
};

static inline long long field(const char *line, const char *name)
{
	const char *at = NULL, *p = line;

	while ((p = strstr(p, name)))	/* a task's name may look like a field */
		at = p++;
	return at ? strtoll(at + strlen(name), NULL, 10) : -1;
}

/* Read the trace; the caller frees ->e. Returns -1 if it cannot be read. */
static inline int trace_read(struct trace *t, struct events *v)
{
	static const struct {
		const char *name;
		enum event_type type;
	} known[] = {
		{ ": sched_switch: ", SWITCH }, { ": sched_wakeup: ", WAKEUP },
		{ ": sched_wakeup_new: ", WAKEUP_NEW }, { ": tracing_mark_write: ", MARK },
		{ ": sched_stat_wait: ", STAT_WAIT }, { ": sched_stat_sleep: ", STAT_SLEEP },
		{ ": sched_stat_iowait: ", STAT_IOWAIT },
		{ ": sched_stat_blocked: ", STAT_BLOCKED },
	};
	char path[128], *text, *line, *next;

	memset(v, 0, sizeof(*v));
	snprintf(path, sizeof(path), "%s/trace", t->dir);
	text = read_file(path);
	if (!text)
		return -1;
	for (line = text; line && *line; line = next) {
		struct event e = { 0 };
		int i;
		char *at = NULL, *p;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (strstr(line, "LOST "))
			v->lost++;
		for (i = 0; i < 8 && !at; i++)
			at = strstr(line, known[i].name);
		if (!at || line[0] == '#')
			continue;
		e.type = known[i - 1].type;
		for (p = at; p > line && p[-1] != ' '; p--)
			;
		e.ts = strtoull(p, &p, 10) * SEC;
		e.ts += strtoull(p + 1, NULL, 10) * 1000;
		at += strlen(known[i - 1].name);
		switch (e.type) {
		case SWITCH:
			p = strstr(at, " ==> ");
			if (!p)
				continue;
			e.next = field(p, " next_pid=");
			*p = '\0';
			e.pid = field(at, " prev_pid=");
			p = strstr(at, " prev_state=");
			if (!p)
				continue;
			e.state = p[strlen(" prev_state=")];
			if (strchr(p, '+'))
				e.state = 'R';	/* preempted, whatever it was about to do */
			break;
		case MARK:
			snprintf(e.mark, sizeof(e.mark), "%.15s", at);
			break;
		case WAKEUP:
		case WAKEUP_NEW:
			e.pid = field(at, " pid=");
			break;
		default:
			e.pid = field(at, " pid=");
			e.delay = field(at, " delay=");
		}
		if (!(v->nr & (v->nr - 1))) {
			struct event *more = realloc(v->e, sizeof(e) * (v->nr ? v->nr * 2 : 1));

			if (!more)
				break;
			v->e = more;
		}
		v->e[v->nr++] = e;
	}
	free(text);
	return 0;
}

/* When the mark was set; 0 if it was not. */
static inline long long mark_ts(struct events *v, const char *mark)
{
	for (size_t i = 0; i < v->nr; i++)
		if (v->e[i].type == MARK && !strcmp(v->e[i].mark, mark))
			return v->e[i].ts;
	return 0;
}

/* The oracle. */

struct verdict {
	int nr[4];		/* events: wait, sleep, iowait, blocked */
	long long sum[4], max;
	int lost;		/* sleeps that no event reported */
	int off;		/* events more than a tick off */
	int wrong;		/* events that cannot be explained at all */
	char first[192];		/* the first of these two kinds */
};

static inline __printf(2, 3) void
complain(struct verdict *r, const char *fmt, ...)
{
	va_list ap;

	if (r->first[0])
		return;
	va_start(ap, fmt);
	vsnprintf(r->first, sizeof(r->first), fmt, ap);
	va_end(ap);
}

/* A sleep of the task: as it begins, and as it ends. */
static inline int falls_asleep(const struct event *e, int pid)
{
	return e->type == SWITCH && e->pid == pid && e->state != 'R';
}

static inline int is_woken(const struct event *e, int pid)
{
	return (e->type == STAT_SLEEP || e->type == STAT_BLOCKED) && e->pid == pid;
}

/*
 * Where clocks only tick, events of two CPUs may have the same time and be in
 * the wrong order. Move the first such event of the next tick to this place.
 */
static inline void pull(struct events *v, size_t i, long long tick, int pid,
			int (*wanted)(const struct event *e, int pid))
{
	for (size_t n = i + 1; n < v->nr && v->e[n].ts <= v->e[i].ts + tick; n++) {
		struct event e = v->e[n];

		if (!wanted(&e, pid))
			continue;
		memmove(&v->e[i + 1], &v->e[i], (n - i) * sizeof(e));
		v->e[i] = e;
		return;
	}
}

/*
 * Follow one task through the trace. Events from before @since, a time of the
 * trace, are not looked at; a delay never reaches back beyond it.
 */
static inline struct verdict
judge(struct trace *t, struct events *v, int pid, long long since)
{
	enum { UNKNOWN, RUNNING, WAITING, SLEEPING } state = UNKNOWN;
	long long from = 0, other = 0, iowait = -1;
	struct verdict r = { 0 };
	int reported = 0, old = 1;	/* old: the state began before @since */
	char how = '?';

	for (size_t i = 0; i < v->nr; i++) {
		struct event *e = &v->e[i];
		long long want, err, worst;

		if (is_woken(e, pid) && state != SLEEPING && e->delay <= t->tick)
			pull(v, i, t->tick, pid, falls_asleep);
		else if (state == SLEEPING && ((e->type == SWITCH && e->next == pid) ||
					       (e->type == STAT_WAIT && e->pid == pid)))
			pull(v, i, t->tick, pid, is_woken);

		switch (e->type) {
		case SWITCH:
			if (e->next == pid)
				state = RUNNING;
			if (e->pid != pid)
				continue;
			state = e->state == 'R' ? WAITING : SLEEPING;
			how = e->state;
			from = e->ts;
			other = 0;
			old = e->ts < since;
			continue;
		case WAKEUP:
			if (e->pid != pid)
				continue;
			if (reported || state != SLEEPING) {
				reported = 0;	/* this is the wakeup of that event */
				continue;
			}
			/* not reported: still queued (a delayed dequeue), or lost */
			other = old ? 0 : from;
			state = WAITING;
			from = e->ts;
			continue;
		case WAKEUP_NEW:
			if (e->pid != pid)
				continue;
			state = WAITING;
			from = e->ts;
			other = 0;
			old = e->ts < since;
			continue;
		case MARK:
			continue;
		default:
			break;
		}

		if (e->pid != pid)
			continue;
		r.nr[e->type - STAT_WAIT]++;
		r.sum[e->type - STAT_WAIT] += e->delay;
		if (e->delay > r.max)
			r.max = e->delay;
		if (e->ts < since) {
			r.wrong++;
			complain(&r, "an event before it was enabled");
			continue;
		}
		worst = e->ts - since + t->tick;
		if (e->delay > worst) {
			r.wrong++;
			complain(&r, "%s: delay %lld us, enabled for %lld us",
				 stat_events[e->type - STAT_WAIT], e->delay / 1000,
				 (e->ts - since) / 1000);
			continue;
		}
		if (state == UNKNOWN)
			continue;	/* bounded is all that can be said */
		want = state == RUNNING ? 0 : e->ts - from;
		if (e->type == STAT_WAIT && state == WAITING && other) {
			/* the wait of a task whose dequeue was delayed is all of it */
			long long all = e->ts - other;

			if (e->delay > (want + all) / 2)
				want = all;
			else
				r.lost++;
			other = 0;
		}
		if (old && e->delay < want)
			want = e->delay;	/* the part that could be seen */
		err = e->delay > want ? e->delay - want : want - e->delay;
		if (err > t->tick) {
			r.off++;
			complain(&r, "%s: delay %lld us, %lld us by sched_switch",
				 stat_events[e->type - STAT_WAIT], e->delay / 1000, want / 1000);
			if (err > OUTLIER)
				r.wrong++;
		}
		switch (e->type) {
		case STAT_WAIT:
			/* requeued, or dequeued late: what comes begins now */
			from = e->ts;
			other = 0;
			break;
		case STAT_IOWAIT:
			iowait = e->delay;
			break;
		case STAT_BLOCKED:
			if (iowait != -1 && iowait != e->delay) {
				r.wrong++;
				complain(&r, "iowait %lld, blocked %lld", iowait, e->delay);
			}
			iowait = -1;
			break;
		default:
			break;
		}
		if (e->type != STAT_SLEEP && e->type != STAT_BLOCKED)
			continue;
		if (state == SLEEPING && how == (e->type == STAT_SLEEP ? 'D' : 'S')) {
			r.wrong++;
			complain(&r, "%s of a task in state %c", stat_events[e->type - STAT_WAIT],
				 how);
		}
		/* it is queued now, and its sched_wakeup is about to come */
		reported = 1;
		state = WAITING;
		from = e->ts;
		other = 0;
		old = 0;
	}
	return r;
}

static inline int total(const struct verdict *r)
{
	return r->nr[0] + r->nr[1] + r->nr[2] + r->nr[3];
}

/* Clocks are off for once, but never by rule. */
static inline int agrees(const struct verdict *r)
{
	return !r->wrong && r->off <= 1 + total(r) / 20;
}

/* The verdict in words; good until the next call. */
static inline const char *say(const struct verdict *r)
{
	static char text[384];

	snprintf(text, sizeof(text),
		 "%d wait, %d sleep, %d iowait, %d blocked; %d lost, %d off by a tick, %d wrong; %s",
		 r->nr[0], r->nr[1], r->nr[2], r->nr[3], r->lost, r->off, r->wrong, r->first);
	return text;
}

/* The tasks. */

/* In the child: dies with the test, has a traced name, is on that CPU (-1: any). */
static inline void become(const char *name, int cpu)
{
	char comm[16];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(comm, sizeof(comm), PREFIX "-%s", name);
	prctl(PR_SET_NAME, comm);
	if (cpu >= 0 && pin(0, cpu))
		_exit(99);
}

/* A child that burns its CPU until it is killed. */
static inline pid_t spinner(const char *name, int cpu)
{
	pid_t pid = fork();

	if (!pid) {
		become(name, cpu);
		for (;;)
			;
	}
	return pid;
}

/* A child that reads a byte per round from the pipe and sleeps in between. */
static inline pid_t reader(const char *name, int cpu, int fd)
{
	pid_t pid = fork();
	char c;

	if (!pid) {
		become(name, cpu);
		while (read(fd, &c, 1) == 1)
			;
		_exit(0);
	}
	return pid;
}

static inline void end(pid_t pid)
{
	if (pid <= 0)
		return;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Poll until the task is in that state; 0 if it is in the end. */
static inline int wait_state(pid_t pid, char state)
{
	char path[64], *text, *paren, is = '?';

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	for (int i = 0; i < 3000; i++) {
		text = read_file(path);
		paren = text ? strrchr(text, ')') : NULL;
		is = paren ? paren[2] : '?';
		free(text);
		if (is == state)
			return 0;
		sleep_ms(10);
	}
	return -1;
}

/* The test module: loads it, or says why it is not there. */
static inline const char *load_module(void)
{
	int fd = open("test_modules/" MODULE ".ko", O_RDONLY | O_CLOEXEC);
	const char *why = NULL;

	if (fd < 0)
		return "test_modules/" MODULE ".ko was not built (no KDIR)";
	if (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST) {
		why = strerror(errno);
		if (errno == ENOSYS)
			why = "CONFIG_MODULES is not set";
		if (errno == EKEYREJECTED || errno == EPERM)
			why = "this kernel takes signed modules only";
	}
	close(fd);
	return why;
}

static inline int unload_module(void)
{
	return syscall(SYS_delete_module, MODULE, O_NONBLOCK) ? -errno : 0;
}

#endif /* SCHED_STAT_H */
