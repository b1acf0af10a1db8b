// SPDX-License-Identifier: GPL-2.0-only
/*
 * The sched_stat events reach whoever listens, in whatever way: ftrace, perf,
 * a BPF program on the raw tracepoint, a module's probe. Events are counted by
 * the task that they are about, not by the one that happened to run.
 */
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "kselftest_harness.h"
#include "sched_stat.h"

#define EVENT	"sched_stat_sleep"
#define CPUS	64
#define PAGES	16	/* of a perf buffer, behind its head */

struct perf {
	int fd[CPUS];
	void *map[CPUS];
	int cpus;
	int pid_offset, delay_offset;	/* in the raw record */
};

struct bpf {
	int map, find, prog, link;
};

FIXTURE(consumer)
{
	struct trace trace;
	struct events events;
	struct perf perf;
	struct bpf bpf;
	int module;
	int pipe[2], done[2];
	pid_t child;
	int naps;		/* taken by the child so far */
};

/* Sleep of the child, of which every listener must hear. */
#define NAP_MS	40

static pid_t napper(int fd, int done)
{
	pid_t pid = fork();
	char c;

	if (!pid) {
		become("nap", 0);
		/* not reported: how long it takes until the next byte comes */
		while (read(fd, &c, 1) == 1) {
			sleep_ms(NAP_MS);
			if (write(done, &c, 1) != 1)
				break;
		}
		_exit(0);
	}
	return pid;
}

/* Let the child sleep n times; each is two: the read and the nap. */
#define NAP(n) do {							\
	for (int i_ = 0; i_ < (n); i_++) {				\
		char c_;						\
									\
		ASSERT_EQ(1, write(self->pipe[1], "", 1));		\
		ASSERT_EQ(1, read(self->done[0], &c_, 1));		\
		ASSERT_EQ(0, wait_state(self->child, 'S'));		\
		sleep_ms(NAP_MS);	/* its dequeue may be delayed */ \
	}								\
} while (0)

FIXTURE_SETUP(consumer)
{
	const char *why = trace_open(&self->trace);

	memset(&self->events, 0, sizeof(self->events));
	memset(&self->perf, -1, sizeof(self->perf));
	memset(&self->bpf, -1, sizeof(self->bpf));
	self->module = 0;
	self->child = 0;
	if (why)
		SKIP(return, "%s", why);
	why = missing_event();
	ASSERT_EQ(NULL, why)
		TH_LOG("there is no event sched:%s", why);
	ASSERT_EQ(0, pipe(self->pipe) | pipe(self->done));
	if (have_schedstats())
		ASSERT_EQ(0, set_schedstats(0));
	self->child = napper(self->pipe[0], self->done[1]);
	ASSERT_EQ(0, wait_state(self->child, 'S'));
}

static void perf_close(struct perf *p)
{
	for (int i = 0; i < p->cpus; i++) {
		munmap(p->map[i], (PAGES + 1) * getpagesize());
		close(p->fd[i]);
	}
	p->cpus = 0;
}

static void bpf_close(struct bpf *b)
{
	int *fd[] = { &b->link, &b->prog, &b->find, &b->map };

	for (int i = 0; i < 4; i++) {
		if (*fd[i] >= 0)
			close(*fd[i]);
		*fd[i] = -1;
	}
}

FIXTURE_TEARDOWN(consumer)
{
	perf_close(&self->perf);
	bpf_close(&self->bpf);
	if (self->module)
		EXPECT_EQ(0, unload_module());
	end(self->child);
	free(self->events.e);
	trace_close(&self->trace);
}

/* perf: an event on each CPU, so that it does not matter who wakes the task. */

static int offset_of(const char *event, const char *name)
{
	char path[96], want[48], *text, *at;
	int offset = -1;

	snprintf(path, sizeof(path), TRACING "/events/sched/%s/format", event);
	snprintf(want, sizeof(want), " %s;\toffset:", name);
	text = read_file(path);
	at = text ? strstr(text, want) : NULL;
	if (at)
		offset = atoi(at + strlen(want));
	free(text);
	return offset;
}

static const char *perf_open(struct perf *p)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_TRACEPOINT,
		.size = sizeof(attr),
		.config = read_number(TRACING "/events/sched/" EVENT "/id"),
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_RAW | PERF_SAMPLE_PERIOD,
	};

	p->cpus = 0;
	p->pid_offset = offset_of(EVENT, "pid");
	p->delay_offset = offset_of(EVENT, "delay");
	for (int cpu = 0; cpu < CPUS && cpu < sysconf(_SC_NPROCESSORS_CONF); cpu++) {
		int fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
		void *map;

		if (fd < 0 && errno == ENODEV)
			continue;	/* a CPU that is offline */
		if (fd < 0)
			return errno == ENOSYS ? "CONFIG_PERF_EVENTS is not set" : strerror(errno);
		map = mmap(NULL, (PAGES + 1) * getpagesize(), PROT_READ | PROT_WRITE,
			   MAP_SHARED, fd, 0);
		if (map == MAP_FAILED) {
			close(fd);
			return "cannot map a perf buffer";
		}
		p->fd[p->cpus] = fd;
		p->map[p->cpus++] = map;
	}
	return NULL;
}

/*
 * Samples about that task since the last call; @odd: those whose period is not
 * the delay, which is what off-CPU profiles add up.
 */
static int perf_count(struct perf *p, int pid, int *odd)
{
	int nr = 0;

	for (int i = 0; i < p->cpus; i++) {
		struct perf_event_mmap_page *head = p->map[i];
		char *data = (char *)p->map[i] + getpagesize();
		uint64_t size = PAGES * getpagesize(), tail = head->data_tail;
		uint64_t end = __atomic_load_n(&head->data_head, __ATOMIC_ACQUIRE);

		while (tail < end) {
			struct perf_event_header h;
			char record[512];

			for (unsigned int b = 0; b < sizeof(h); b++)
				((char *)&h)[b] = data[(tail + b) % size];
			for (unsigned int b = 0; b < h.size && b < sizeof(record); b++)
				record[b] = data[(tail + b) % size];
			if (h.type == PERF_RECORD_SAMPLE) {
				/* header, period, size of the raw part, raw part */
				char *raw = record + sizeof(h) + 8 + 4;
				uint64_t period, delay;
				int about;

				memcpy(&period, record + sizeof(h), 8);
				memcpy(&about, raw + p->pid_offset, 4);
				memcpy(&delay, raw + p->delay_offset, 8);
				if (about == pid) {
					nr++;
					*odd += period != delay;
				}
			}
			tail += h.size;
		}
		__atomic_store_n(&head->data_tail, tail, __ATOMIC_RELEASE);
	}
	return nr;
}

/* BPF, by hand: neither libbpf nor BTF is needed. */

static int bpf(int cmd, union bpf_attr *attr)
{
	return syscall(SYS_bpf, cmd, attr, sizeof(*attr));
}

#define INSN(op, dst, src, off_, imm_)					\
	((struct bpf_insn){ .code = op, .dst_reg = dst, .src_reg = src,	\
			    .off = off_, .imm = imm_ })
/* Append r0 = the map's value of that key. */
static int lookup(struct bpf_insn *at, int map, int key)
{
	struct bpf_insn insns[] = {
		INSN(BPF_ST | BPF_MEM | BPF_W, 10, 0, -4, key),
		INSN(BPF_LD | BPF_IMM | BPF_DW, 1, BPF_PSEUDO_MAP_FD, 0, map),
		INSN(0, 0, 0, 0, 0),
		INSN(BPF_ALU64 | BPF_MOV | BPF_X, 2, 10, 0, 0),
		INSN(BPF_ALU64 | BPF_ADD | BPF_K, 2, 0, 0, -4),
		INSN(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem),
		INSN(BPF_JMP | BPF_JNE | BPF_K, 0, 0, 2, 0),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0),
		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
	};

	memcpy(at, insns, sizeof(insns));
	return ARRAY_SIZE(insns);
}

static int bpf_load(struct bpf_insn *insns, size_t nr)
{
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT,
		.insns = (uintptr_t)insns,
		.insn_cnt = nr,
		.license = (uintptr_t)"GPL",
	};

	return bpf(BPF_PROG_LOAD, &attr);
}

enum { KEY_TASK, KEY_HITS, KEY_DELAY, KEYS };	/* of the map, 64 bits each */

static long long bpf_value(struct bpf *b, uint32_t key)
{
	long long value = 0;
	union bpf_attr attr = {
		.map_fd = b->map,
		.key = (uintptr_t)&key,
		.value = (uintptr_t)&value,
	};

	bpf(BPF_MAP_LOOKUP_ELEM, &attr);
	return value;
}

static const char *bpf_open(struct bpf *b)
{
	union bpf_attr attr = {
		.map_type = BPF_MAP_TYPE_ARRAY,
		.key_size = 4,
		.value_size = 8,
		.max_entries = KEYS,
	};
	struct bpf_insn code[64];
	int n;

	b->map = bpf(BPF_MAP_CREATE, &attr);
	if (b->map < 0)
		return errno == ENOSYS ? "CONFIG_BPF_SYSCALL is not set" : strerror(errno);

	/* find: the task that renames itself is the map's from now on */
	n = 0;
	code[n++] = INSN(BPF_LDX | BPF_MEM | BPF_DW, 6, 1, 0, 0);
	n += lookup(code + n, b->map, KEY_TASK);
	code[n++] = INSN(BPF_STX | BPF_MEM | BPF_DW, 0, 6, 0, 0);
	code[n++] = INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0);
	code[n++] = INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
	b->find = bpf_load(code, n);

	/* count: the tracepoint's arguments are a task and a delay */
	n = 0;
	code[n++] = INSN(BPF_LDX | BPF_MEM | BPF_DW, 6, 1, 0, 0);
	code[n++] = INSN(BPF_LDX | BPF_MEM | BPF_DW, 7, 1, 8, 0);
	n += lookup(code + n, b->map, KEY_TASK);
	code[n++] = INSN(BPF_LDX | BPF_MEM | BPF_DW, 8, 0, 0, 0);
	code[n++] = INSN(BPF_JMP | BPF_JEQ | BPF_X, 8, 6, 2, 0);
	code[n++] = INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0);
	code[n++] = INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
	n += lookup(code + n, b->map, KEY_HITS);
	code[n++] = INSN(BPF_ALU64 | BPF_MOV | BPF_K, 1, 0, 0, 1);
	code[n++] = INSN(BPF_STX | BPF_ATOMIC | BPF_DW, 0, 1, 0, BPF_ADD);
	n += lookup(code + n, b->map, KEY_DELAY);
	code[n++] = INSN(BPF_STX | BPF_MEM | BPF_DW, 0, 7, 0, 0);
	code[n++] = INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0);
	code[n++] = INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
	b->prog = bpf_load(code, n);
	if (b->find < 0 || b->prog < 0)
		return errno == EINVAL ? "CONFIG_BPF_EVENTS is not set" : strerror(errno);
	return NULL;
}

static int bpf_attach(const char *name, int prog)
{
	union bpf_attr attr = {
		.raw_tracepoint = { .name = (uintptr_t)name, .prog_fd = prog },
	};

	return bpf(BPF_RAW_TRACEPOINT_OPEN, &attr);
}

/* The caller's task_struct is the one to count from now on. */
static int bpf_find_me(struct bpf *b)
{
	int link = bpf_attach("task_rename", b->find);

	if (link < 0)
		return -1;
	prctl(PR_SET_NAME, PREFIX "-bpf");
	close(link);
	return bpf_value(b, KEY_TASK) ? 0 : -1;
}

static int ftrace_count(struct trace *t, pid_t pid, const char *mark)
{
	struct events v;
	struct verdict r;

	if (trace_read(t, &v))
		return -1;
	r = judge(t, &v, pid, mark_ts(&v, mark));
	free(v.e);
	return agrees(&r) ? r.nr[1] : -1;
}

TEST_F(consumer, ftrace)
{
	/* then the child's first sleep is known, though it began before */
	if (others_listen())
		SKIP(return, "somebody else listens, too (set_event)");
	trace_mark(&self->trace, "enable");
	ASSERT_EQ(0, trace_event(&self->trace, EVENT, 1));
	NAP(5);
	EXPECT_GE(ftrace_count(&self->trace, self->child, "enable"), 9);
}

TEST_F(consumer, perf)
{
	const char *why = perf_open(&self->perf);
	int odd = 0;

	if (why)
		SKIP(return, "%s", why);
	NAP(5);
	EXPECT_GE(perf_count(&self->perf, self->child, &odd), 9);
	EXPECT_EQ(0, odd)
		TH_LOG("%d samples whose period is not the delay", odd);
}

TEST_F(consumer, bpf)
{
	const char *why = bpf_open(&self->bpf);
	pid_t pid;
	int status;

	if (why)
		SKIP(return, "%s", why);
	pid = fork();
	if (!pid) {
		become("bpf", 0);
		if (bpf_find_me(&self->bpf))
			_exit(1);
		self->bpf.link = bpf_attach(EVENT, self->bpf.prog);
		if (self->bpf.link < 0)
			_exit(2);
		for (int i = 0; i < 5; i++)
			sleep_ms(NAP_MS);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	ASSERT_EQ(0, status);
	EXPECT_GE(bpf_value(&self->bpf, KEY_HITS), 5);
	EXPECT_GE(bpf_value(&self->bpf, KEY_DELAY), (NAP_MS - 5) * MS);
	EXPECT_LE(bpf_value(&self->bpf, KEY_DELAY), NAP_MS * MS + OUTLIER);
}

TEST_F(consumer, module)
{
	const char *why = load_module();
	char pid[16];

	if (why)
		SKIP(return, "%s", why);
	self->module = 1;
	snprintf(pid, sizeof(pid), "%d", self->child);
	ASSERT_EQ(0, write_file(PARAMETERS "pid", pid));
	ASSERT_EQ(0, write_file(PARAMETERS "probe", EVENT));
	NAP(5);
	EXPECT_GE(read_number(PARAMETERS "hits"), 9);
	EXPECT_GE(read_number(PARAMETERS "last_us"), (NAP_MS - 5) * 1000);
	ASSERT_EQ(0, write_file(PARAMETERS "probe", "\n"));
}

/*
 * Each goes while the other stays, in both orders, and on events of their own,
 * so that more than one tracepoint counts on the key.
 */
TEST_F(consumer, two_at_once)
{
	const char *why = perf_open(&self->perf);
	struct events v;
	struct verdict r;
	int odd = 0, n;

	if (others_listen())
		why = "somebody else listens, too (set_event)";
	if (why)
		SKIP(return, "%s", why);
	trace_mark(&self->trace, "enable");
	ASSERT_EQ(0, trace_event(&self->trace, EVENT, 1));
	ASSERT_EQ(0, trace_event(&self->trace, "sched_stat_wait", 1));
	NAP(2);
	EXPECT_GE(perf_count(&self->perf, self->child, &odd), 3);
	EXPECT_GE(ftrace_count(&self->trace, self->child, "enable"), 3);

	/* ftrace goes, perf stays */
	ASSERT_EQ(0, trace_event(&self->trace, EVENT, 0));
	ASSERT_EQ(0, trace_event(&self->trace, "sched_stat_wait", 0));
	n = ftrace_count(&self->trace, self->child, "enable");
	NAP(2);
	EXPECT_GE(perf_count(&self->perf, self->child, &odd), 4);
	EXPECT_EQ(n, ftrace_count(&self->trace, self->child, "enable"));

	/* ftrace comes back, perf goes */
	ASSERT_EQ(0, trace_event(&self->trace, EVENT, 1));
	perf_close(&self->perf);
	NAP(2);
	EXPECT_GE(ftrace_count(&self->trace, self->child, "enable"), n + 4);

	/* nobody listens, and nothing is kept for later */
	ASSERT_EQ(0, trace_event(&self->trace, EVENT, 0));
	NAP(1);
	sleep_ms(300);
	trace_clear(&self->trace);
	trace_mark(&self->trace, "again");
	ASSERT_EQ(0, trace_event(&self->trace, EVENT, 1));
	ASSERT_EQ(1, write(self->pipe[1], "", 1));
	sleep_ms(NAP_MS * 2);
	ASSERT_EQ(0, wait_state(self->child, 'S'));
	ASSERT_EQ(0, trace_read(&self->trace, &v));
	r = judge(&self->trace, &v, self->child, mark_ts(&v, "again"));
	free(v.e);
	TH_LOG("%s", say(&r));
	EXPECT_EQ(1, r.nr[1]);	/* the nap, not the sleep before it */
	EXPECT_LE(r.max, 250 * MS);
	EXPECT_TRUE(agrees(&r));
	EXPECT_EQ(0, odd);
}

TEST_HARNESS_MAIN
