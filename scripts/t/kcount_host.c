// SPDX-License-Identifier: GPL-2.0
/*
 * kcount_host - drive scripts/kcount.c on the host, without QEMU
 *
 *	cc -std=c11 -g -fsanitize=address,undefined -o kcount_host kcount_host.c
 *	./kcount_host DIR		# an existing folder for scratch files
 *
 * Includes the plugin, stubs the qemu_plugin_* functions and plays golden
 * traces: blocks of real x86 bytes are "translated", then entered and stepped
 * through. Each test runs in a child of its own, because the plugin keeps its
 * state in globals. Prints one "ok NAME" or "not ok NAME: why" line per test;
 * exit status 1 if one failed.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kcount.c"

/* ---- a QEMU of a few lines ---- */

struct qemu_plugin_insn {
	uint8_t bytes[16];
	size_t size;
	uint64_t va, *counter, imm;
	exec_cb exec;
	mem_cb mem;
	void *exec_data, *mem_data;
};

struct qemu_plugin_tb {
	size_t n;
	struct qemu_plugin_insn insn[64];
	exec_cb exec;
	void *exec_data;
};

static trans_cb translate;
static exit_cb at_exit;
static const char *dir;
static char out_file[512], err_file[512], in_file[512];

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, trans_cb cb)
{
	(void)id;
	translate = cb;
}

void qemu_plugin_register_atexit_cb(uint64_t id, exit_cb cb, void *udata)
{
	(void)id;
	(void)udata;
	at_exit = cb;
}

void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, exec_cb cb,
					  int flags, void *udata)
{
	(void)flags;
	tb->exec = cb;
	tb->exec_data = udata;
}

void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, exec_cb cb,
					    int flags, void *udata)
{
	(void)flags;
	insn->exec = cb;
	insn->exec_data = udata;
}

void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn, int op,
						void *ptr, uint64_t imm)
{
	(void)op;
	insn->counter = ptr;
	insn->imm = imm;
}

void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, mem_cb cb, int flags,
				      int rw, void *udata)
{
	(void)flags;
	(void)rw;
	insn->mem = cb;
	insn->mem_data = udata;
}

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb)
{
	return tb->n;
}

struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t i)
{
	return (struct qemu_plugin_insn *)&tb->insn[i];
}

const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn)
{
	return insn->bytes;
}

size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn)
{
	return insn->size;
}

uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn)
{
	return insn->va;
}

unsigned int qemu_plugin_mem_size_shift(uint32_t info)
{
	return info & 7;
}

bool qemu_plugin_mem_is_store(uint32_t info)
{
	return info >> 8;
}

/* ---- test helpers ---- */

#define die(...) do {							\
	printf("%s:%d: ", __func__, __LINE__);				\
	printf(__VA_ARGS__);						\
	fflush(stdout);							\
	_exit(1);							\
} while (0)

#define same(have, want) do {						\
	uint64_t have_ = (uint64_t)(have), want_ = (uint64_t)(want);	\
									\
	if (have_ != want_)						\
		die("%s is %" PRIu64 ", not %" PRIu64, #have, have_, want_);	\
} while (0)

/* Install with space-separated options; out= is added. */
static int install_info(const struct qemu_info *info, const char *opts)
{
	static char copy[1024], out_opt[600];
	char *argv[16], *p;
	int argc = 0;

	snprintf(copy, sizeof(copy), "%s", opts);
	snprintf(out_opt, sizeof(out_opt), "out=%s", out_file);
	if (!strstr(opts, "out="))
		argv[argc++] = out_opt;
	for (p = strtok(copy, " "); p; p = strtok(NULL, " "))
		argv[argc++] = p;
	return qemu_plugin_install(1, info, argc, argv);
}

static int install(int cpus, const char *opts)
{
	struct qemu_info info = { "x86_64", { 0, 1 }, true, { cpus, cpus } };

	return install_info(&info, opts);
}

static void start(int cpus, const char *opts)
{
	if (install(cpus, opts))
		die("install failed with \"%s\"", opts);
}

static void write_file(const char *text)
{
	FILE *f = fopen(in_file, "w");

	if (!f || fputs(text, f) < 0 || fclose(f))
		die("cannot write %s", in_file);
}

/* Translate: insns in hex, separated by ';'. "in N" and "out N" are markers. */
static struct qemu_plugin_tb *block(uint64_t pc, const char *text)
{
	struct qemu_plugin_tb *tb = zalloc(1, sizeof(*tb));
	struct qemu_plugin_insn *in;
	char copy[4096], *p, *save = NULL;
	unsigned int id, byte;
	int used;

	snprintf(copy, sizeof(copy), "%s", text);
	for (p = strtok_r(copy, ";", &save); p; p = strtok_r(NULL, ";", &save)) {
		in = &tb->insn[tb->n++];
		in->va = pc;
		p += strspn(p, " ");
		if (sscanf(p, "in %u", &id) == 1 || sscanf(p, "out %u", &id) == 1) {
			id |= *p == 'o' ? 0x80 : 0;
			memcpy(in->bytes, (uint8_t[]){ 0x0f, 0x1f, 0x84, 0, (uint8_t)id, 0,
						       0x43, 0x4b }, 8);
			in->size = 8;
		} else {
			for (; sscanf(p, "%2x%n", &byte, &used) == 1; p += used)
				in->bytes[in->size++] = (uint8_t)byte;
		}
		pc += in->size;
	}
	translate(1, tb);
	return tb;
}

static void enter(unsigned int cpu, struct qemu_plugin_tb *tb)
{
	tb->exec(cpu, tb->exec_data);
}

static void step(unsigned int cpu, struct qemu_plugin_tb *tb, size_t i)
{
	struct qemu_plugin_insn *in = &tb->insn[i];

	if (in->exec)
		in->exec(cpu, in->exec_data);
	if (in->counter)
		*in->counter += in->imm;
}

/* Enter the block and execute its first n insns. */
static void run_part(unsigned int cpu, struct qemu_plugin_tb *tb, size_t n)
{
	size_t i;

	enter(cpu, tb);
	for (i = 0; i < n; i++)
		step(cpu, tb, i);
}

static void run_all(unsigned int cpu, struct qemu_plugin_tb *tb)
{
	run_part(cpu, tb, tb->n);
}

static void access_n(unsigned int cpu, struct qemu_plugin_tb *tb, size_t i, bool is_store,
		     uint64_t addr, unsigned int shift)
{
	tb->insn[i].mem(cpu, shift | (uint32_t)is_store << 8, addr, tb->insn[i].mem_data);
}

static void load(struct qemu_plugin_tb *tb, uint64_t addr)
{
	access_n(0, tb, 0, false, addr, 0);
}

/* The cell of the result, or UINT64_MAX if it is "-" or there is no such row. */
static uint64_t cell(const char *section, unsigned int roi, const char *mode,
		     const char *name, const char *column)
{
	char line[4096], *f[20], *p;
	FILE *file = fopen(out_file, "r");
	uint64_t v = UINT64_MAX;
	int i, n, col = -1;

	if (!file)
		die("no result file");
	while (fgets(line, sizeof(line), file)) {
		if (*line == '#')
			continue;
		line[strcspn(line, "\n")] = '\0';
		for (p = line, n = 0; n < 20; n++) {
			f[n] = p;
			p = strchr(p, '\t');
			if (!p)
				break;
			*p++ = '\0';
		}
		if (n != 16)
			die("a row has %d columns, not 17", n + 1);
		if (!strcmp(f[0], "section")) {
			for (i = 0; i < 17; i++)
				if (!strcmp(f[i], column))
					col = i;
			continue;
		}
		if (col < 0)
			die("no column %s", column);
		if (strcmp(f[0], section) || strtoul(f[1], NULL, 10) != roi ||
		    strcmp(f[2], mode) || strcmp(f[3], name))
			continue;
		if (v != UINT64_MAX)
			die("row %s %u %s %s is there twice", section, roi, mode, name);
		if (strcmp(f[col], "-"))
			v = strtoull(f[col], NULL, 10);
	}
	fclose(file);
	return v;
}

#define user(roi, column)	cell("region", roi, "user", "-", column)
#define kernel(roi, column)	cell("region", roi, "kernel", "-", column)
#define sym(roi, name, column)	cell("symbol", roi, "kernel", name, column)
#define range(roi, name, column) cell("range", roi, "-", name, column)
#define NONE UINT64_MAX

static void finish(void)
{
	at_exit(1, NULL);
}

static bool result_has(const char *text)
{
	static char all[1 << 16];
	FILE *f = fopen(out_file, "r");
	size_t n = f ? fread(all, 1, sizeof(all) - 1, f) : 0;

	all[n] = '\0';
	if (f)
		fclose(f);
	return strstr(all, text);
}

/* ---- the tests ---- */

static void t_decode(void)
{
	static const struct { uint8_t b[10], n; int kind; int64_t rel; } t[] = {
		{ { 0x74, 0xfe }, 2, K_COND, -2 },			/* jz */
		{ { 0x0f, 0x85, 1, 1, 0, 0 }, 6, K_COND, 257 },		/* jnz */
		{ { 0x2e, 0x0f, 0x85, 0xff, 0xff, 0xff, 0xff }, 7, K_COND, -1 },
		{ { 0xe2, 0x10 }, 2, K_COND, 16 },			/* loop */
		{ { 0xe3, 0x10 }, 2, K_COND, 16 },			/* jrcxz */
		{ { 0xeb, 0 }, 2, K_JUMP, 0 },
		{ { 0xe9, 0, 0, 0, 0 }, 5, K_JUMP, 0 },
		{ { 0xe8, 0, 0, 0, 0 }, 5, K_JUMP, 0 },
		{ { 0xc3 }, 1, K_JUMP, 0 },
		{ { 0xf3, 0xc3 }, 2, K_JUMP, 0 },
		{ { 0xff, 0xd0 }, 2, K_JUMP, 0 },			/* call *%rax */
		{ { 0x41, 0xff, 0xe3 }, 3, K_JUMP, 0 },			/* jmp *%r11 */
		{ { 0xff, 0x6c, 0x24, 8 }, 4, K_JUMP, 0 },		/* ljmp */
		{ { 0xff, 0xc0 }, 2, K_NONE, 0 },			/* inc */
		{ { 0xff, 0x30 }, 2, K_NONE, 0 },			/* push */
		{ { 0x48, 0xcf }, 2, K_IRET, 0 },
		{ { 0x0f, 0x05 }, 2, K_JUMP, 0 },			/* syscall */
		{ { 0x48, 0x0f, 0x07 }, 3, K_JUMP, 0 },			/* sysret */
		{ { 0xcc }, 1, K_JUMP, 0 },
		{ { 0x90 }, 1, K_NONE, 0 },
		{ { 0x0f, 0x0b }, 2, K_NONE, 0 },			/* ud2 */
		{ { 0x0f, 0x84 }, 2, K_NONE, 0 },			/* cut off */
		{ { 0x0f }, 1, K_NONE, 0 },
		{ { 0xff }, 1, K_NONE, 0 },
		{ { 0x66 }, 1, K_NONE, 0 },
		{ { 0xc5, 0xf8, 0x77 }, 3, K_NONE, 0 },			/* vzeroupper */
		{ { 0x0f, 0x1f, 0x84, 0, 0x70, 0, 0x43, 0x4b }, 8, K_NONE, 0 },
	};
	int64_t rel;
	size_t i;

	for (i = 0; i < sizeof(t) / sizeof(*t); i++) {
		rel = 0;
		if ((int)decode(t[i].b, t[i].n, &rel) != t[i].kind || rel != t[i].rel)
			die("row %zu: kind %d rel %" PRId64, i,
			    (int)decode(t[i].b, t[i].n, &rel), rel);
	}
}

/* Insns that are counted together: none that may fault may be among them. */
static void t_plain(void)
{
	static const struct { uint8_t b[10], n; bool plain; } t[] = {
		{ { 0x90 }, 1, true },
		{ { 0x48, 0x01, 0xd8 }, 3, true },		/* add %rbx,%rax */
		{ { 0x48, 0x01, 0x18 }, 3, false },		/* add %rbx,(%rax) */
		{ { 0x48, 0x83, 0xc0, 1 }, 4, true },		/* add $1,%rax */
		{ { 0x48, 0x83, 0x00, 1 }, 4, false },
		{ { 0x05, 1, 0, 0, 0 }, 5, true },		/* add $1,%eax */
		{ { 0x06 }, 1, false },				/* push %es, 32 bit */
		{ { 0x27 }, 1, false },
		{ { 0x89, 0xc3 }, 2, true },
		{ { 0x8b, 0x03 }, 2, false },
		{ { 0x8b, 0x45, 0xff }, 3, false },
		{ { 0x8c, 0xd8 }, 2, false },			/* mov %ds,%eax */
		{ { 0x8e, 0xd8 }, 2, false },
		{ { 0x48, 0x8d, 0x04, 0x18 }, 4, true },	/* lea */
		{ { 0x8d, 0xc0 }, 2, false },			/* invalid */
		{ { 0x50 }, 1, false },				/* push */
		{ { 0xb8, 0, 0, 0, 0 }, 5, true },
		{ { 0x9c }, 1, false },				/* pushf */
		{ { 0xa8, 1 }, 2, true },
		{ { 0xa4 }, 1, false },				/* movsb */
		{ { 0xc1, 0xe0, 4 }, 3, true },			/* shl */
		{ { 0xc1, 0x20, 4 }, 3, false },
		{ { 0xc7, 0xc0, 0, 0, 0, 0 }, 6, true },
		{ { 0xc7, 0xf8, 0, 0, 0, 0 }, 6, false },	/* xbegin */
		{ { 0xf7, 0xe3 }, 2, true },			/* mul */
		{ { 0xf7, 0xf3 }, 2, false },			/* div */
		{ { 0xff, 0xc0 }, 2, true },			/* inc */
		{ { 0xff, 0xd0 }, 2, false },			/* call */
		{ { 0xfe, 0xd0 }, 2, false },
		{ { 0xf0, 0x01, 0xc0 }, 3, false },		/* lock, invalid */
		{ { 0xf3, 0x90 }, 2, false },			/* pause */
		{ { 0x0f, 0x44, 0xc1 }, 3, true },		/* cmov */
		{ { 0x0f, 0x44, 0x01 }, 3, false },
		{ { 0x0f, 0x94, 0xc0 }, 3, true },		/* sete */
		{ { 0x0f, 0x84, 0xc0, 0, 0, 0 }, 6, false },	/* je */
		{ { 0x0f, 0xb6, 0xc0 }, 3, true },
		{ { 0x0f, 0xb6, 0x00 }, 3, false },
		{ { 0x0f, 0x0b }, 2, false },			/* ud2 */
		{ { 0x0f, 0x22, 0xc0 }, 3, false },		/* mov %rax,%cr0 */
		{ { 0x0f, 0xc8 }, 2, true },			/* bswap */
		{ { 0x0f, 0x1f, 0x00 }, 3, true },
		{ { 0xc5, 0xf8, 0x77 }, 3, false },
		{ { 0x74, 0 }, 2, false },
		{ { 0x0f }, 1, false },
		{ { 0x48 }, 1, false },
	};
	size_t i;

	for (i = 0; i < sizeof(t) / sizeof(*t); i++)
		if (decode_plain(t[i].b, t[i].n) != t[i].plain)
			die("row %zu", i);
}

static void t_marker(void)
{
	static const uint8_t good[] = { 0x0f, 0x1f, 0x84, 0, 0x85, 0, 0x43, 0x4b };
	struct insn x = { 0 };
	uint8_t bad[8];
	int i;

	same(decode_marker(good, 8, &x), 1);
	same(x.roi, 5);
	same(x.stop, 1);
	for (i = 0; i < 8; i++) {
		if (i == 4)
			continue;
		memcpy(bad, good, 8);
		bad[i] ^= 1;
		x.marker = false;
		same(decode_marker(bad, 8, &x), 0);
		same(x.marker, 0);
	}
	same(decode_marker(good, 7, &x), 0);
}

/* Markers in the middle of blocks; they count outside, the rest exactly. */
static void t_regions(void)
{
	struct qemu_plugin_tb *a, *b, *c;

	start(1, "cache=off");
	a = block(0x1000, "90; in 1; 90; 90; eb 00");
	b = block(0x2000, "90; 8b 00; 90; 90");
	c = block(0x3000, "90; out 1; 90");
	run_all(0, a);
	run_all(0, b);
	run_all(0, c);
	run_all(0, b);				/* outside */
	run_all(0, block(0x4000, "out 7"));	/* never started */
	run_all(0, a);
	run_part(0, b, 2);			/* faults */
	run_all(0, block(UINT64_C(0xffffffff81000000), "90; 48 cf"));
	run_all(0, c);
	/* nested and recursive */
	run_all(0, block(0x5000, "in 2; 90; in 3; 90; 90; in 2; out 2; out 3; 90; out 2; 90"));
	run_all(0, block(0x6000, "in 9; 90; 90; 90"));	/* stays open */
	finish();
	same(user(1, "entries_n"), 2);
	same(user(1, "insns_n"), 3 + 4 + 1 + 3 + 2 + 1);
	same(kernel(1, "insns_n"), 2);
	same(user(1, "branches_n"), 2);
	same(kernel(1, "branches_n"), 1);
	same(user(2, "insns_n"), 1 + 1 + 2 + 1 + 1 + 1 + 1);
	same(user(2, "entries_n"), 2);
	same(user(3, "insns_n"), 2 + 1 + 1);
	same(user(9, "insns_n"), 3);
	same(user(1, "l1d_miss_n"), NONE);
	same(user(1, "text_lines_n"), 3);
	same(user(1, "text_pages_n"), 3);
	same(result_has("# unmatched_stops\t1\n"), 1);
	same(result_has("# open_regions\t9\n"), 1);
	same(result_has("# anomalies\t0\n"), 1);
	/* a 5, b 4, c 3, b 4, stop 1, a 5, b 2, kernel 2, c 3, nested 11, open 4 */
	same(result_has("# total_insns\t44\n"), 1);
}

static void t_taken(void)
{
	struct qemu_plugin_tb *jz, *fall, *target, *irq, *far;

	start(1, "cache=off");
	run_all(0, block(0x100, "in 1"));
	jz = block(0x1000, "8b 00; 74 10");	/* falls to 1004, jumps to 1014 */
	fall = block(0x1004, "90");
	target = block(0x1014, "90");
	far = block(0x7000, "90");
	irq = block(UINT64_C(0xffffffff81000000), "90; 48 cf");
	run_all(0, jz);
	run_all(0, fall);
	run_all(0, jz);
	run_all(0, target);		/* taken */
	run_all(0, jz);
	run_all(0, irq);
	run_all(0, target);		/* taken, seen after the interrupt */
	run_all(0, jz);
	run_all(0, irq);
	run_all(0, fall);
	run_part(0, jz, 1);		/* faults before the branch */
	run_all(0, target);
	run_all(0, jz);
	run_all(0, irq);
	run_all(0, far);		/* never resolved */
	run_all(0, block(0x200, "out 1"));
	finish();
	same(user(1, "branches_n"), 5);
	same(user(1, "taken_n"), 2);
	same(kernel(1, "taken_n"), 3);
	same(result_has("# unresolved_branches\t1\n"), 1);
}

/* One set of two ways: the hit on A must save it, and B falls out. */
static void t_lru(void)
{
	struct qemu_plugin_tb *b;

	start(1, "l1d=32:2:16 llc=64:4:16");
	b = block(0x1000, "in 1; 90; out 1");
	run_part(0, b, 1);
	load(b, 0x000);			/* A miss */
	load(b, 0x100);			/* B miss */
	load(b, 0x000);			/* A hit */
	load(b, 0x200);			/* C miss, B out */
	load(b, 0x000);			/* A hit */
	load(b, 0x100);			/* B miss in L1D, hit in the LLC */
	step(0, b, 1);
	step(0, b, 2);
	finish();
	same(user(1, "loads_n"), 6);
	same(user(1, "l1d_miss_n"), 4);
	same(user(1, "l1i_miss_n"), 1);
	/* A, B, C and the text line */
	same(user(1, "llc_miss_n"), 4);
}

/* Neighbours do not conflict, lines one way apart do; straddling counts two. */
static void t_sets(void)
{
	struct qemu_plugin_tb *b;
	int i;

	start(1, "l1d=1K:1:64");	/* 16 sets */
	b = block(0x1000, "in 1; 90; out 1; in 2; out 2; in 3; out 3");
	run_part(0, b, 1);
	for (i = 0; i < 64; i++)
		load(b, (uint64_t)(i % 16) * 64);
	step(0, b, 1);
	step(0, b, 2);
	step(0, b, 3);
	for (i = 0; i < 10; i++)
		load(b, 0x10000 + (uint64_t)(i % 2) * 1024);
	step(0, b, 4);
	step(0, b, 5);
	access_n(0, b, 0, true, 0x2003c, 3);	/* bytes 3c..43: two lines */
	access_n(0, b, 0, true, 0x20078, 3);	/* ends with its line: hit */
	access_n(0, b, 0, true, 0x200bc, 3);
	step(0, b, 6);
	finish();
	same(user(1, "l1d_miss_n"), 16);
	same(user(2, "l1d_miss_n"), 10);
	same(user(2, "llc_miss_n"), 2);
	same(user(3, "l1d_miss_n"), 4);
	same(user(3, "stores_n"), 3);
}

/* A second model of LRU, by time stamps, against random traces. */
static void t_random(void)
{
	static const char *const geoms[] = { "l1d=1K:1:16", "l1d=4K:4:64", "l1d=512:16:32",
					     "l1d=32K:8:64" };
	static uint64_t line[4096], stamp[4096];
	uint64_t seed = 1, misses = 0, now, addr, l, set, w, victim;
	struct qemu_plugin_tb *b;
	const struct geom *g = &g_l1d;
	size_t k = (size_t)strtoul(getenv("GEOM"), NULL, 10);

	start(1, geoms[k]);
	b = block(0x1000, "in 1; out 1");
	run_part(0, b, 1);
	for (now = 1; now < 200000; now++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		addr = (seed >> 40) % (g->size * 3 / 2);
		if (seed >> 33 & 1)		/* some locality */
			addr %= g->size / 4;
		load(b, addr);
		l = addr / g->line;
		set = l % (g->size / g->line / g->ways) * g->ways;
		for (w = set, victim = set; w < set + g->ways; w++) {
			if (stamp[w] && line[w] == l)
				break;
			if (stamp[w] < stamp[victim])
				victim = w;
		}
		if (w == set + g->ways) {
			misses++;
			w = victim;
		}
		line[w] = l;
		stamp[w] = now;
	}
	step(0, b, 1);
	finish();
	same(user(1, "loads_n"), 199999);
	same(user(1, "l1d_miss_n"), misses);
}

static void t_text(void)
{
	struct qemu_plugin_tb *a, *b;

	start(1, "l1i=128:1:64");		/* 2 sets of one way */
	run_all(0, block(0x100, "in 1"));
	/* 3f: an insn across two lines */
	a = block(0x103f, "66 90");
	b = block(0x1040, "90");
	run_all(0, a);				/* lines 40, 41 of 64 bytes */
	run_all(0, b);				/* hit */
	run_all(0, b);
	run_all(0, block(0x1080, "90"));	/* line 42 evicts 40 */
	run_all(0, block(0x10c0, "90"));	/* line 43 evicts 41 */
	run_all(0, block(0x1000, "90"));	/* 40 misses */
	run_all(0, a);				/* 41 misses */
	run_all(0, block(0x200, "out 1"));
	finish();
	/* and the line of "out 1" */
	same(user(1, "l1i_miss_n"), 2 + 1 + 1 + 1 + 1 + 1);
	same(user(1, "text_lines_n"), 5);
	same(user(1, "text_pages_n"), 2);
}

/* A block that only the outer region has seen is new to the inner one. */
static void t_text_nested(void)
{
	struct qemu_plugin_tb *b;

	start(1, "cache=off");
	run_all(0, block(0x1000, "in 1"));
	b = block(0x2000, "90");
	run_all(0, b);
	run_all(0, block(0x3000, "in 2"));
	run_all(0, b);
	run_all(0, block(0x4000, "out 2"));
	run_all(0, b);
	run_all(0, block(0x5000, "out 1"));
	finish();
	same(user(1, "text_lines_n"), 4);
	same(user(2, "text_lines_n"), 2);
	same(user(1, "insns_n"), 5);
	same(user(2, "insns_n"), 1);
}

/* Caches start cold at the first region, and go on after it. */
static void t_warm(void)
{
	struct qemu_plugin_tb *b;
	bool reset = !strcmp(getenv("WARM"), "reset");

	start(1, reset ? "warm=reset" : "warm=roi");
	b = block(0x1000, "in 1; out 1; 90; in 2; out 2");
	load(b, 0x10000);
	run_part(0, b, 1);
	load(b, 0x10000);
	step(0, b, 1);
	load(b, 0x20000);
	step(0, b, 2);
	step(0, b, 3);
	load(b, 0x20000);
	step(0, b, 4);
	finish();
	same(user(1, "l1d_miss_n"), reset ? 0 : 1);
	same(user(2, "l1d_miss_n"), 0);
}

static void t_symbols(void)
{
	struct qemu_plugin_tb *b;
	char opts[600];

	write_file("0000000000000000 A fixed_percpu_data\n"
		   "ffffffff81000000 T _text\n"
		   "ffffffff81000000 T alias\n"
		   "ffffffff81000010 t fn\n"
		   "ffffffff81000012 W fn\n"
		   "ffffffff81000100 D data\n"
		   "ffffffff81000200 T last\n"
		   "ffffffffa0000000 t mod_init\t[mod]\n");
	snprintf(opts, sizeof(opts), "symbols=%s", in_file);
	start(1, opts);
	run_all(0, block(0x100, "in 1"));
	/* falls from _text into fn and its namesake; a jump back to fn */
	run_all(0, block(UINT64_C(0xffffffff8100000e), "90; 90; 90; 90; 90; eb f9"));
	b = block(UINT64_C(0xffffffff81000010), "66 90");
	run_all(0, b);
	access_n(0, b, 0, false, UINT64_C(0xffff888000000000), 3);
	run_all(0, block(UINT64_C(0xffffffffa0000004), "90"));
	run_all(0, block(UINT64_C(0xffffffff90000000), "90"));	/* beyond any symbol */
	run_all(0, block(0x200, "out 1"));
	finish();
	same(sym(1, "_text", "insns_n"), 2);
	same(sym(1, "alias", "insns_n"), NONE);
	same(sym(1, "_text", "entries_n"), 0);
	same(sym(1, "fn", "insns_n"), 2 + 1);
	same(sym(1, "fn", "entries_n"), 2);
	same(sym(1, "fn", "l1d_miss_n"), 1);
	same(sym(1, "fn", "loads_n"), 1);
	same(sym(1, "fn~2", "insns_n"), 2);
	same(sym(1, "fn~2", "branches_n"), 1);
	same(sym(1, "fn~2", "taken_n"), 1);
	same(sym(1, "fn", "text_lines_n"), 1);
	same(sym(1, "_text", "text_lines_n"), 1);
	same(sym(1, "mod_init[mod]", "insns_n"), 1);
	same(sym(1, "[unknown]", "insns_n"), 1);
	same(sym(1, "last", "insns_n"), NONE);
	same(cell("symbol", 1, "user", "[user]", "insns_n"), 0);
	same(kernel(1, "insns_n"), 9);
	same(kernel(1, "text_lines_n"), 3);
}

static void t_ranges(void)
{
	struct qemu_plugin_tb *b;
	char opts[600];

	write_file("# name span [stride field]\n"
		   "plain 1000-1100\n"
		   "field 1000-2000 100 40-48\n"
		   "edge 0x8000-0x8008\n");
	snprintf(opts, sizeof(opts), "ranges=%s", in_file);
	start(1, opts);
	b = block(0x100, "in 1; out 1; in 2; out 2");
	load(b, 0x1000);			/* before */
	run_part(0, b, 1);
	load(b, 0x1040);			/* plain, field */
	load(b, 0x1047);			/* plain, field, hit */
	load(b, 0x1048);			/* plain */
	load(b, 0x1140);			/* field */
	load(b, 0x1f3f);
	access_n(0, b, 0, true, 0x1f3c, 3);	/* field, by its last 4 bytes; straddles */
	access_n(0, b, 0, true, 0x10fe, 2);	/* plain; the element after it is not met */
	load(b, 0x1100);			/* the first byte after plain */
	load(b, 0x2000);
	access_n(0, b, 0, true, 0x7ffc, 3);	/* edge; straddles */
	load(b, 0x8008);
	step(0, b, 1);
	step(0, b, 2);
	step(0, b, 3);
	finish();
	same(range(1, "plain", "loads_n"), 3);
	same(range(1, "plain", "stores_n"), 1);
	same(range(1, "plain", "l1d_miss_n"), 1 + 2);	/* the store straddles */
	same(range(1, "field", "loads_n"), 3);
	same(range(1, "field", "stores_n"), 1);
	same(range(1, "field", "l1d_miss_n"), 1 + 1 + 1);
	same(range(1, "edge", "stores_n"), 1);
	same(range(1, "edge", "loads_n"), 0);
	same(range(1, "edge", "l1d_miss_n"), 2);
	same(range(2, "edge", "loads_n"), 0);
	same(range(1, "edge", "insns_n"), NONE);
	same(range(1, "edge", "inval_n"), NONE);
}

static void t_mesi(void)
{
	struct qemu_plugin_tb *b;
	const uint64_t x = 0x10000, y = 0x20000;

	start(2, "");
	b = block(0x100, "in 1; out 1");
	run_part(0, b, 1);
	access_n(0, b, 0, false, x, 3);	/* 0: E */
	access_n(0, b, 0, true, x, 3);	/* 0: M, silently */
	access_n(1, b, 0, false, x, 3);	/* dirty at 0: S, S */
	access_n(1, b, 0, false, x, 3);	/* hit */
	access_n(1, b, 0, true, x, 3);	/* invalidates 0's copy: -, M */
	access_n(1, b, 0, true, x, 3);	/* hit */
	access_n(0, b, 0, true, x + 8, 3);	/* false sharing: dirty, invalidated: M, - */
	access_n(1, b, 0, true, y, 3);	/* another line: none */
	access_n(0, b, 0, false, y + 64, 3);
	step(0, b, 1);
	finish();
	same(user(1, "l1d_miss_n"), 5);
	same(user(1, "inval_n"), 2);
	same(user(1, "remote_dirty_n"), 2);
	same(user(1, "llc_miss_n"), 3 + 1);	/* x, y, y + 64 and the text */
	same(cell("line", 1, "-", "0x0000000000010000", "inval_n"), 2);
	same(cell("line", 1, "-", "0x0000000000010000", "remote_dirty_n"), 2);
	same(cell("line", 1, "-", "0x0000000000020000", "inval_n"), NONE);
	same(result_has("# exact\tno: coherence is a distribution\n"), 1);
}

/* An invalidated way is filled before a line is thrown out. */
static void t_mesi_hole(void)
{
	struct qemu_plugin_tb *b;

	start(2, "l1d=32:2:16");
	b = block(0x100, "in 1; out 1");
	run_part(0, b, 1);
	load(b, 0x1000);
	load(b, 0x2000);
	access_n(1, b, 0, true, 0x2000, 3);
	load(b, 0x3000);
	load(b, 0x1000);		/* still there */
	step(0, b, 1);
	finish();
	same(user(1, "l1d_miss_n"), 4);
	same(user(1, "inval_n"), 1);
}

/*
 * QEMU 7.2 shows an insn that crosses a page as the last of a block, and then
 * takes it out: the block always ends before it, whatever it is.
 */
static void t_page_cross(void)
{
	struct qemu_plugin_tb *b;

	start(1, "cache=off");
	run_all(0, block(0x100, "in 1"));
	b = block(0x1ffa, "90; 90; 90; 90; 48 89 c3");
	run_part(0, b, 4);
	run_all(0, block(0x1ffe, "48 89 c3; 90"));
	run_all(0, block(0x200, "out 1"));
	finish();
	same(user(1, "insns_n"), 6);
}

/* An interrupted CPU's insns are charged to it, not to the one that runs next. */
static void t_two_cpus(void)
{
	struct qemu_plugin_tb *jz, *k;

	start(2, "cache=off");
	run_all(0, block(0x100, "in 1"));
	jz = block(0x1000, "74 10");
	k = block(UINT64_C(0xffffffff81000000), "90; 8b 00; 90");
	run_all(0, jz);
	run_part(1, k, 2);
	run_all(0, block(0x1012, "90"));	/* taken */
	run_all(1, block(0x200, "out 1"));
	finish();
	same(user(1, "insns_n"), 2);
	same(kernel(1, "insns_n"), 2);
	same(user(1, "taken_n"), 1);
}

/* Translating again, and many blocks: records are shared, the table grows. */
static void t_retranslate(void)
{
	struct qemu_plugin_tb *b;
	uint64_t i;

	start(1, "cache=off");
	run_all(0, block(0x100, "in 1"));
	for (i = 0; i < 20000; i++) {
		b = block(0x10000 + i * 16, "90; eb 00");
		run_all(0, b);
		free(b);
	}
	b = block(0x10000, "90; eb 00");
	run_all(0, b);
	same(tb_n, 20001);
	b = block(0x10000, "91; eb 00");	/* patched code */
	same(tb_n, 20002);
	run_all(0, b);
	run_all(0, block(0x200, "out 1"));
	finish();
	same(user(1, "insns_n"), 2 * 20002);
	same(user(1, "text_lines_n"), 5000 + 1);
}

/* What is refused, and the word that must be in the one line that says so. */
static const struct { const char *opts, *why; } bad[] = {
	{ "out=", "out=PATH is missing" },
	{ "out=/nonexistent/x", "/nonexistent/x.tmp: No such file" },
	{ "out=/dev/null", "not a writable file" },
	{ "out=/", "not a writable file" },
	{ "frob=1", "frob=1: unknown option" },
	{ "l1d", "l1d: unknown option" },
	{ "cache=on cache=off", "given twice" },
	{ "cache=maybe", "not on or off" },
	{ "cache=off l1d=32K:8:64", "have no meaning" },
	{ "warm=1", "not reset or roi" },
	{ "l1d=48K:8:64", "96 sets is not a power of two" },
	{ "l1i=0:8:64", "the size must be" },
	{ "l1i=32K:0:64", "the ways must be" },
	{ "l1i=32K:8:0", "the line must be" },
	{ "l1i=32K:8:48", "the line must be" },
	{ "l1i=32K:8:8", "the line must be" },
	{ "llc=100:1:64", "not a multiple" },
	{ "llc=1G:16:64", "not SIZE:WAYS:LINE" },
	{ "llc=2048M:16:64", "the size must be" },
	{ "llc=99999999999999999999:16:64", "not SIZE:WAYS:LINE" },
	{ "llc=1M:16", "not SIZE:WAYS:LINE" },
	{ "llc=1M:16:64x", "not SIZE:WAYS:LINE" },
	{ "llc=-1M:16:64", "not SIZE:WAYS:LINE" },
	{ "llc=", "not SIZE:WAYS:LINE" },
	{ "top=many", "not a number" },
	{ "top=9999999", "not a number" },
	{ "symbols=/nonexistent", "No such file" },
	{ "ranges=/nonexistent", "No such file" },
	{ "symbols=@", "empty, unreadable" },
	{ "symbols=@rubbish\n", ":1: not ADDRESS TYPE NAME" },
	{ "symbols=@0000000000000000 T _text\n", "kptr_restrict" },
	{ "symbols=@ffffffff81000000 TT x\n", "not ADDRESS TYPE NAME" },
	{ "ranges=@# nothing\n", "no range" },
	{ "ranges=@a 1000-1000\n", ":1: not NAME START-END" },
	{ "ranges=@a 1000-xyz\n", ":1: not NAME START-END" },
	{ "ranges=@a 1000\n", ":1: not NAME START-END" },
	{ "ranges=@a 10-20\na 30-40\n", ":2: a is given twice" },
	{ "ranges=@a 10-20 8 4-9\n", "not STRIDE OFF-END" },
	{ "ranges=@a 10-20 0 0-1\n", "not STRIDE OFF-END" },
	{ "ranges=@a 10-20 8 0-4 9\n", "9 is one word too many" },
};

/* stderr goes to a file; it must be one line with `why` in it. */
static void refused(int ret, const char *why)
{
	char text[1024];
	FILE *f;
	size_t n;

	fflush(stderr);
	if (!ret)
		die("accepted");
	f = fopen(err_file, "r");
	n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
	text[n] = '\0';
	if (!n || strchr(text, '\n') != text + n - 1 || strncmp(text, "kcount: ", 8))
		die("not one line: %s", text);
	if (!strstr(text, why))
		die("%s", text);
	if (translate || at_exit)
		die("callbacks are registered");
}

static void t_refuse(void)
{
	size_t i = (size_t)strtoul(getenv("ROW"), NULL, 10);
	const char *at = strchr(bad[i].opts, '@');
	char opts[600];

	if (!freopen(err_file, "w", stderr))
		die("freopen");
	if (at) {
		write_file(at + 1);
		snprintf(opts, sizeof(opts), "%.*s%s", (int)(at - bad[i].opts), bad[i].opts,
			 in_file);
	} else {
		snprintf(opts, sizeof(opts), "%s", bad[i].opts);
	}
	refused(install(1, opts), bad[i].why);
}

static void t_other_qemu(void)
{
	static const struct { struct qemu_info info; const char *why; } t[] = {
		{ { "x86_64", { 0, 0 }, true, { 1, 1 } }, "this QEMU has API 0" },
		{ { "x86_64", { 2, 4 }, true, { 1, 1 } }, "this QEMU has API 4" },
		{ { "x86_64", { 2, 7 }, true, { 1, 1 } }, "built for QEMU plugin API 1" },
		{ { "aarch64", { 0, 1 }, true, { 1, 1 } }, "target aarch64" },
		{ { "x86_64", { 0, 1 }, false, { 0, 0 } }, "user-mode" },
		{ { "x86_64", { 0, 1 }, true, { 1, 1000 } }, "1000 vCPUs" },
	};
	size_t i;

	for (i = 0; i < sizeof(t) / sizeof(*t); i++) {
		if (!freopen(err_file, "w", stderr))
			die("freopen");
		refused(install_info(&t[i].info, ""), t[i].why);
	}
}

/* An old result is gone as soon as a run starts, and a dead run leaves none. */
static void t_stale(void)
{
	FILE *f = fopen(out_file, "w");

	if (!f || fclose(f))
		die("cannot write");
	start(1, "");
	same(access(out_file, F_OK), (uint64_t)-1);
	finish();
	same(access(out_file, F_OK), 0);
	same(result_has("section\troi\tmode\tname\t"), 1);
}

static int failed;

static void run_test(const char *name, void (*fn)(void))
{
	char why[1024];
	int fd[2], status;
	ssize_t n;
	size_t len = 0;
	pid_t pid;

	remove(out_file);
	fflush(stdout);
	if (pipe(fd) || (pid = fork()) < 0) {
		perror("kcount_host");
		exit(2);
	}
	if (!pid) {
		dup2(fd[1], 1);
		dup2(fd[1], 2);
		close(fd[0]);
		close(fd[1]);
		fn();
		_exit(0);
	}
	close(fd[1]);
	while (len < sizeof(why) - 1 && (n = read(fd[0], why + len, sizeof(why) - 1 - len)) > 0)
		len += (size_t)n;
	why[len] = '\0';
	close(fd[0]);
	waitpid(pid, &status, 0);
	for (len = 0; why[len]; len++)
		if (why[len] == '\n')
			why[len] = ' ';
	if (status) {
		printf("not ok %s: %s (wait status %d)\n", name, why, status);
		failed = 1;
	} else {
		printf("ok %s\n", name);
	}
}

/* The same function once for each value of an environment variable. */
static void run_each(const char *name, void (*fn)(void), const char *var, size_t n)
{
	char num[32], full[64];
	size_t i;

	for (i = 0; i < n; i++) {
		snprintf(num, sizeof(num), "%zu", i);
		snprintf(full, sizeof(full), "%s-%zu", name, i);
		setenv(var, num, 1);
		run_test(full, fn);
	}
}

/* The plugin lives as long as its process, so it frees nothing at the end. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fputs("usage: kcount_host DIR\n", stderr);
		return 2;
	}
	dir = argv[1];
	snprintf(out_file, sizeof(out_file), "%s/host.tsv", dir);
	snprintf(err_file, sizeof(err_file), "%s/host.err", dir);
	snprintf(in_file, sizeof(in_file), "%s/host.in", dir);

	run_test("host-decode", t_decode);
	run_test("host-plain", t_plain);
	run_test("host-marker", t_marker);
	run_test("host-regions", t_regions);
	run_test("host-taken", t_taken);
	run_test("host-lru", t_lru);
	run_test("host-sets", t_sets);
	run_each("host-random", t_random, "GEOM", 4);
	run_test("host-text", t_text);
	run_test("host-text-nested", t_text_nested);
	setenv("WARM", "roi", 1);
	run_test("host-warm-roi", t_warm);
	setenv("WARM", "reset", 1);
	run_test("host-warm-reset", t_warm);
	run_test("host-symbols", t_symbols);
	run_test("host-ranges", t_ranges);
	run_test("host-mesi", t_mesi);
	run_test("host-mesi-hole", t_mesi_hole);
	run_test("host-page-cross", t_page_cross);
	run_test("host-two-cpus", t_two_cpus);
	run_test("host-retranslate", t_retranslate);
	run_test("host-stale", t_stale);
	run_test("host-other-qemu", t_other_qemu);
	run_each("host-refuse", t_refuse, "ROW", sizeof(bad) / sizeof(*bad));
	return failed;
}
