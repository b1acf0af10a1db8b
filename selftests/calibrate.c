// SPDX-License-Identifier: GPL-2.0
/*
 * calibrate - known-answer code for scripts/kcount.c, run in the measured guest
 *
 *	calibrate				# 32K:8:64 twice, kcount's default
 *	l1i=16K:4:64 l1d=48K:12:64 calibrate
 *
 * Each piece of code runs in its own region (100 and up, see the table below)
 * and prints what kcount must have counted for it. Only the user rows are
 * predicted: a timer tick adds kernel instructions, and kernel lines in the
 * caches, at a place that is fixed for one boot but not known here. Hence a
 * tolerance where ticks can matter, and none where they cannot.
 *
 * Output, tab-separated, one record a line, for scripts/calib-check:
 *	calib	geom	l1d	32768:8:64	the geometry that is expected
 *	calib	expect	ID	COLUMN	LOW	HIGH	WHAT
 *	calib	diff	ID_B	ID_A	COLUMN	LOW	HIGH	WHAT (B minus A)
 *	calib	skip	WHAT	REASON
 *	calib	end	N				N records before this one
 *
 * As pid 1 it reboots when it is done (qemu -no-reboot exits), so that an
 * initramfs needs no other program: rdinit=/calibrate.
 * Exit status: 0, or 2 with one line on stderr.
 *
 * Build: cc -static -no-pie -pthread -O2 calibrate.c
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/reboot.h>
#include <termios.h>
#include <unistd.h>

#include "roi.h"

/* The regions. The numbers are part of the output format. */
#define R_LOOP		100	/* N times dec, jnz */
#define R_MIXED		101	/* call, ret, a branch never and one always taken */
#define R_CHASE_FIT	102	/* pointer chase over half the L1D */
#define R_CHASE_FULL	103	/* over exactly the L1D */
#define R_CHASE_OVER	104	/* over twice the L1D */
#define R_SET_FIT	105	/* as many lines of one set as it has ways */
#define R_SET_OVER	106	/* one more */
#define R_STRADDLE	107	/* loads across two lines */
#define R_TEXT_FIT	108	/* straight code of a quarter of the L1I */
#define R_TEXT_OVER	109	/* straight code of twice the L1I */
#define R_PLAIN		110	/* call of an empty function */
#define R_PLUS1000	111	/* the same with 1000 instructions in it */
#define R_AGAIN		112	/* entered 10 times */
#define R_OUTER		113	/* holds R_INNER */
#define R_INNER		114
#define R_PINGPONG	115	/* two CPUs hand one line to and fro */
#define R_APART		116	/* two CPUs, each its own line */

/* Markers inside an asm statement, so that the compiler adds nothing to a region. */
#define STR_(x)		#x
#define STR(x)		STR_(x)
#define MARK(v)		".byte 0x0f, 0x1f, 0x84, 0x00\n\t.long 0x4b430000 + " STR(v) "\n\t"
#define IN(id)		MARK(id)
#define OUT(id)		MARK(id + ROI_STOP)

#define LOOPS		1000000
#define PASSES		50
#define ROUNDS		2000	/* of the ping-pong */
#define TICK_LINES	64	/* lines that ticks may evict in a short region */

struct geom {
	uint64_t size, ways, line, sets;
};

static struct geom l1i = { 32768, 8, 64, 64 }, l1d = { 32768, 8, 64, 64 };
static unsigned int records;

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "calibrate: %s: %s\n", what, why);
	exit(2);
}

__attribute__((format(printf, 1, 2)))
static void record(const char *fmt, ...)
{
	va_list ap;

	fputs("calib\t", stdout);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	records++;
}

static void expect(int id, const char *column, uint64_t low, uint64_t high,
		   const char *what)
{
	record("expect\t%d\t%s\t%" PRIu64 "\t%" PRIu64 "\t%s", id, column, low, high, what);
}

static void exactly(int id, const char *column, uint64_t n, const char *what)
{
	expect(id, column, n, n, what);
}

static struct geom parse_geom(const char *arg)
{
	uint64_t v[3];
	char *end = NULL;
	int i;

	for (i = 0; i < 3; i++) {
		if (*arg < '0' || *arg > '9')
			fail(arg, "not SIZE:WAYS:LINE");
		v[i] = strtoull(arg, &end, 10);
		if (*end == 'K') {
			v[i] *= 1024;
			end++;
		}
		if (*end != (i < 2 ? ':' : '\0') || !v[i] || v[i] > 1 << 20)
			fail(arg, "not SIZE:WAYS:LINE");
		arg = end + 1;
	}
	if (v[0] % (v[1] * v[2]))
		fail("geometry", "the size is not a multiple of ways * line");
	return (struct geom){ v[0], v[1], v[2], v[0] / (v[1] * v[2]) };
}

/* 1 + 2 N instructions, N branches, N - 1 taken; no memory. */
static void loop(void)
{
	uint64_t n;

	__asm__ volatile(IN(R_LOOP)
			 "mov %1, %0\n"
			 "1: dec %0\n\t"
			 "jnz 1b\n\t"
			 OUT(R_LOOP) : "=&r" (n) : "i" (LOOPS) : "cc");

	exactly(R_LOOP, "entries_n", 1, "loop: entered once");
	exactly(R_LOOP, "insns_n", 1 + 2 * LOOPS, "loop: 1 + 2 N");
	exactly(R_LOOP, "branches_n", LOOPS, "loop: N");
	exactly(R_LOOP, "taken_n", LOOPS - 1, "loop: N - 1");
	exactly(R_LOOP, "loads_n", 0, "loop: none");
	exactly(R_LOOP, "stores_n", 0, "loop: none");
}

/* Per round: call, ret (a store, a load), test, jz not taken, jmp, dec, jnz. */
static void mixed(void)
{
	uint64_t n = 1000;

	__asm__ volatile(IN(R_MIXED)
			 "lea -128(%%rsp), %%rsp\n"
			 "1: call 3f\n\t"
			 "test %%rsp, %%rsp\n\t"
			 "jz 4f\n\t"
			 "jmp 2f\n\t"
			 "nop\n"
			 "2: dec %0\n\t"
			 "jnz 1b\n\t"
			 "jmp 4f\n"
			 "3: ret\n"
			 "4: lea 128(%%rsp), %%rsp\n\t"
			 OUT(R_MIXED) : "+r" (n) : : "memory", "cc");

	exactly(R_MIXED, "insns_n", 3 + 7 * 1000, "mixed: 3 + 7 N");
	exactly(R_MIXED, "branches_n", 1 + 5 * 1000, "mixed: 1 + 5 N");
	exactly(R_MIXED, "taken_n", 4 * 1000, "mixed: 4 N");
	exactly(R_MIXED, "loads_n", 1000, "mixed: ret, N");
	exactly(R_MIXED, "stores_n", 1000, "mixed: call, N");
}

/* Link k lines, stride bytes apart, into a ring at buf. */
static void **ring(char *buf, uint64_t k, uint64_t stride)
{
	uint64_t i;

	for (i = 0; i < k; i++)
		*(void **)(buf + i * stride) = buf + (i + 1) % k * stride;
	return (void **)buf;
}

/* One pass first, so that the ring is where LRU leaves it. */
#define CHASE(id, start, steps, warm) do {				\
	void *p_ = (start);						\
	uint64_t n_ = (warm);						\
									\
	__asm__ volatile("1: mov (%0), %0\n\tdec %1\n\tjnz 1b"		\
			 : "+r" (p_), "+r" (n_) : : "memory", "cc");	\
	n_ = (steps);							\
	__asm__ volatile(IN(id)						\
			 "1: mov (%0), %0\n\tdec %1\n\tjnz 1b\n\t"	\
			 OUT(id)					\
			 : "+r" (p_), "+r" (n_) : : "memory", "cc");	\
	exactly(id, "insns_n", 3 * (steps), #id ": 3 k passes");	\
	exactly(id, "loads_n", steps, #id ": k passes");		\
	exactly(id, "stores_n", 0, #id ": none");			\
} while (0)

static void chase(char *buf)
{
	uint64_t lines = l1d.size / l1d.line, k;

	k = lines / 2;
	CHASE(R_CHASE_FIT, ring(buf, k, l1d.line), k * PASSES, k);
	expect(R_CHASE_FIT, "l1d_miss_n", 0, TICK_LINES, "fits: none, but for ticks");
	k = lines;
	CHASE(R_CHASE_FULL, ring(buf, k, l1d.line), k * PASSES, k);
	/* a line that a tick evicts from a full set costs ways misses a pass later */
	expect(R_CHASE_FULL, "l1d_miss_n", 0, TICK_LINES * l1d.ways,
	       "fills it: none, but for ticks");
	k = lines * 2;
	CHASE(R_CHASE_OVER, ring(buf, k, l1d.line), k * PASSES, k);
	exactly(R_CHASE_OVER, "l1d_miss_n", k * PASSES, "twice the L1D: all, LRU");
	expect(R_CHASE_OVER, "llc_miss_n", 0, k, "twice the L1D: the LLC holds it");

	k = l1d.ways;
	CHASE(R_SET_FIT, ring(buf, k, l1d.line * l1d.sets), k * PASSES, k);
	expect(R_SET_FIT, "l1d_miss_n", 0, k, "one set, as many lines as ways: none");
	k = l1d.ways + 1;
	CHASE(R_SET_OVER, ring(buf, k, l1d.line * l1d.sets), k * PASSES, k);
	exactly(R_SET_OVER, "l1d_miss_n", k * PASSES, "one set, a line more than ways: all");

	/* 8 bytes from 4 before a line's end; ways + 1 pairs in two sets */
	CHASE(R_STRADDLE, ring(buf + l1d.line - 4, k, l1d.line * l1d.sets), k * PASSES, k);
	exactly(R_STRADDLE, "l1d_miss_n", 2 * k * PASSES, "across two lines: two misses each");
}

/* Straight code: BYTES of 8-byte NOPs, then ret. */
__asm__(".pushsection .text\n"
	".balign 4096\n"
	"text_run:\n"
	".rept 8192\n"
	".byte 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0\n"
	".endr\n"
	"ret\n"
	".balign 4096\n"
	"text_empty: ret\n"
	"text_1000: .rept 1000\n"
	"nop\n"
	".endr\n"
	"ret\n"
	".popsection\n");
extern const char text_run[], text_empty[], text_1000[];
#define TEXT_RUN_BYTES	(8192 * 8)

/* Call fn n times: 2 + n (call, dec, jnz) and what fn is. */
#define CALLS(fn, n, in, out) do {						\
	const char *f_ = (fn);						\
	uint64_t n_ = (n);						\
									\
	__asm__ volatile(in						\
			 "lea -128(%%rsp), %%rsp\n"			\
			 "1: call *%0\n\t"				\
			 "dec %1\n\t"					\
			 "jnz 1b\n\t"					\
			 "lea 128(%%rsp), %%rsp\n\t"			\
			 out						\
			 : "+r" (f_), "+r" (n_) : : "memory", "cc");	\
} while (0)

static void text(void)
{
	uint64_t fit = l1i.size / 4, over = l1i.size * 2;
	uint64_t lines = TEXT_RUN_BYTES / l1i.line, insns;

	if (over > TEXT_RUN_BYTES) {
		record("skip\ttext\tthe L1I is larger than half of the %d bytes of code",
		       TEXT_RUN_BYTES);
		return;
	}
	/* the last `fit` bytes of it, and the line of its ret */
	CALLS(text_run + TEXT_RUN_BYTES - fit, 1, "", "");
	CALLS(text_run + TEXT_RUN_BYTES - fit, PASSES, IN(R_TEXT_FIT), OUT(R_TEXT_FIT));
	insns = 2 + (fit / 8 + 1 + 3) * PASSES;
	exactly(R_TEXT_FIT, "insns_n", insns, "straight code: its instructions");
	expect(R_TEXT_FIT, "l1i_miss_n", 0, TICK_LINES, "fits: none, but for ticks");

	CALLS(text_run, 1, "", "");
	CALLS(text_run, PASSES, IN(R_TEXT_OVER), OUT(R_TEXT_OVER));
	expect(R_TEXT_OVER, "l1i_miss_n", lines * PASSES, (lines + 4) * PASSES,
	       "too large: every line, every pass");
	expect(R_TEXT_OVER, "text_lines_n", lines + 1, lines + 4, "distinct text lines");
}

static void plus1000(void)
{
	CALLS(text_empty, 1, "", "");
	CALLS(text_1000, 1, "", "");
	CALLS(text_empty, 1, IN(R_PLAIN), OUT(R_PLAIN));
	CALLS(text_1000, 1, IN(R_PLUS1000), OUT(R_PLUS1000));
	record("diff\t%d\t%d\tinsns_n\t1000\t1000\tinjected: +1000 instructions", R_PLUS1000,
	       R_PLAIN);
	record("diff\t%d\t%d\tbranches_n\t0\t0\tinjected: no branch", R_PLUS1000, R_PLAIN);
}

static void nesting(void)
{
	int i;

	for (i = 0; i < 10; i++) {
		roi_start(R_AGAIN);
		__asm__ volatile(".rept 10\n\tnop\n\t.endr");
		roi_stop(R_AGAIN);
	}
	roi_start(R_OUTER);
	__asm__ volatile(".rept 5\n\tnop\n\t.endr");
	roi_start(R_INNER);
	__asm__ volatile(".rept 7\n\tnop\n\t.endr");
	roi_stop(R_INNER);
	roi_stop(R_OUTER);
	exactly(R_AGAIN, "entries_n", 10, "entered 10 times");
	exactly(R_AGAIN, "insns_n", 100, "10 times 10");
	exactly(R_INNER, "insns_n", 7, "inner: 7");
	exactly(R_OUTER, "insns_n", 14, "outer: 5 + marker + 7 + marker");
}

/* Two threads on CPU 0 and 1 that start together. */
static struct {
	volatile uint32_t turn __attribute__((aligned(4096)));
	volatile uint32_t own[2][1024] __attribute__((aligned(4096)));
	volatile uint32_t ready __attribute__((aligned(4096)));
} shared;

static void pin(unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity", strerror(errno));
}

static void meet(uint32_t n)
{
	__atomic_add_fetch(&shared.ready, 1, __ATOMIC_SEQ_CST);
	while (shared.ready < n)
		__builtin_ia32_pause();
}

static void pingpong(uint32_t me)
{
	int i;

	for (i = 0; i < ROUNDS; i++) {
		while (shared.turn != me)
			__builtin_ia32_pause();
		shared.turn = !me;
	}
}

static void apart(uint32_t me)
{
	int i;

	for (i = 0; i < ROUNDS; i++) {
		shared.own[me][0]++;
		__builtin_ia32_pause();
	}
}

static void *other_cpu(void *arg)
{
	(void)arg;
	pin(1);
	meet(2);
	pingpong(1);
	meet(4);
	apart(1);
	meet(6);
	return NULL;
}

static void two_cpus(void)
{
	pthread_t other;
	cpu_set_t set;
	int err;

	if (sched_getaffinity(0, sizeof(set), &set))
		fail("sched_getaffinity", strerror(errno));
	/* not sysconf(): that wants sysfs mounted */
	if (!CPU_ISSET(0, &set) || !CPU_ISSET(1, &set)) {
		record("skip\tping-pong\tneeds CPUs 0 and 1");
		return;
	}
	shared.turn = 0;
	pin(0);
	err = pthread_create(&other, NULL, other_cpu, NULL);
	if (err)
		fail("pthread_create", strerror(err));
	meet(2);
	roi_start(R_PINGPONG);
	pingpong(0);
	roi_stop(R_PINGPONG);
	meet(4);
	roi_start(R_APART);
	apart(0);
	roi_stop(R_APART);
	meet(6);
	err = pthread_join(other, NULL);
	if (err)
		fail("pthread_join", strerror(err));
	/*
	 * Each of the 2 R hand-overs is one store that takes the line from the
	 * other CPU, which has it because it waits for it, and one load that
	 * finds it modified there. The other CPU may be on its way into or out
	 * of the region for the first and last.
	 */
	expect(R_PINGPONG, "inval_n", 2 * ROUNDS - 4, 2 * ROUNDS + 4, "hand-overs: 2 R");
	expect(R_PINGPONG, "remote_dirty_n", 2 * ROUNDS - 4, 2 * ROUNDS + 4,
	       "hand-overs: 2 R");
	expect(R_APART, "inval_n", 0, 8, "own lines: none");
	expect(R_APART, "remote_dirty_n", 0, 8, "own lines: none");
}

int main(void)
{
	size_t bytes;
	char *buf;

	/* scripts/boot has them from the options of kcount; init passes them on */
	if (getenv("l1i"))
		l1i = parse_geom(getenv("l1i"));
	if (getenv("l1d"))
		l1d = parse_geom(getenv("l1d"));
	bytes = (l1d.ways + 3) * l1d.line * l1d.sets + 2 * l1d.size;
	buf = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buf == MAP_FAILED)
		fail("mmap", strerror(errno));
	memset(buf, 1, bytes);
	memset(&shared, 0, sizeof(shared));

	record("geom\tl1i\t%" PRIu64 ":%" PRIu64 ":%" PRIu64, l1i.size, l1i.ways, l1i.line);
	record("geom\tl1d\t%" PRIu64 ":%" PRIu64 ":%" PRIu64, l1d.size, l1d.ways, l1d.line);
	loop();
	mixed();
	chase(buf);
	text();
	plus1000();
	nesting();
	two_cpus();
	printf("calib\tend\t%u\n", records);
	if (fflush(stdout))
		fail("stdout", strerror(errno));
	if (getpid() == 1) {
		tcdrain(STDOUT_FILENO);		/* a serial port still has some of it */
		reboot(RB_AUTOBOOT);
	}
	return 0;
}
