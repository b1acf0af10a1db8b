// SPDX-License-Identifier: GPL-2.0
/*
 * kcount - perf stat for a kernel without a PMU: a QEMU TCG plugin
 *
 *	cc -std=c11 -O2 -Wall -Wextra -Wconversion -Werror -shared -fPIC \
 *	   -fvisibility=hidden -o kcount.so kcount.c
 *	qemu-system-x86_64 ... -plugin kcount.so,out=kcount.tsv,symbols=System.map
 *
 * Counts what the guest executes between two marker instructions. Under
 *	-accel tcg,thread=single -smp 1 -icount shift=0,sleep=off -seed 42
 *	-rtc clock=vm,base=2026-01-01     and, in the guest, nokaslr norandmaps
 * the result file of two runs is the same, byte for byte.
 *
 * Options (key=value, comma-separated; anything else is refused before boot):
 *	out=PATH	the result; PATH is removed at the start, written as
 *			PATH.tmp, renamed at exit. Required.
 *	cache=on|off	default on; off counts instructions, branches, loads and
 *			stores and touches no cache model
 *	l1i=32K:8:64 l1d=32K:8:64 llc=1M:16:64
 *			SIZE:WAYS:LINE; the sets must be a power of two
 *	warm=roi|reset	model the caches from the first region on (default: they
 *			start cold there and keep running between regions), or
 *			from reset
 *	symbols=FILE	System.map or /proc/kallsyms, modules included: adds one
 *			row per region and kernel symbol
 *	ranges=FILE	lines "NAME START-END" or "NAME START-END STRIDE OFF-END",
 *			numbers in hex, END exclusive: one row per region and
 *			range. The long form counts only the bytes OFF to END of
 *			each STRIDE bytes: a field in an array or a slab.
 *	top=N		coherence rows per region, default 32, more than one vCPU
 *	help=on		print this in short; QEMU does not start
 *
 * Regions: `nopl disp32(%rax,%rax,1)`, bytes 0f 1f 84 00 and disp32 =
 * 0x4b43 << 16 | stop << 7 | id, id 0..127 (selftests/roi.h). It works in user
 * and in kernel code and is a plain NOP elsewhere. A region counts on every
 * vCPU and in every process while it is open; nested regions each count all of
 * it, repeated ones are summed. The markers themselves are outside.
 *
 * Result: "# key value" lines, then one header line, then rows:
 *	region	two rows each: kernel (bit 63 of the pc set) and user
 *	symbol	self counts; entries_n = times its first instruction ran (a jump
 *		back to it counts too). [user] and [unknown] take the rest, so
 *		symbol rows add up to region rows, except text lines and pages
 *		(a line that two symbols share counts for both).
 *	range	loads, stores, misses, coherence events that touch the range
 *	line	guest address of a data line, by inval_n + remote_dirty_n
 * Every column counts events (_n); text_lines_n counts distinct lines of l1i's
 * line size, text_pages_n distinct 4 KiB pages. "-" is not measured, never 0.
 *
 * Model: private L1I and L1D per vCPU, one LLC for all of them, code and data;
 * strict LRU, write-allocate; the LLC is looked up on an L1 miss only. One
 * virtual address space. An access that straddles a line counts both lines.
 * With more than one vCPU the L1Ds keep MESI states: a store invalidates the
 * other copies (inval_n), a miss that finds a modified copy elsewhere is a
 * remote_dirty_n (perf c2c's HITM) and no LLC miss. QEMU's vCPU switches decide
 * who meets whom: take these as a distribution, not as exact counts.
 *
 * What it cannot show: time; prefetch, speculation, TLBs, write-back traffic;
 * aliases (two processes' equal user addresses share a line, two mappings of
 * one page do not). Loads and stores are TCG's memory operations: 16 bytes are
 * two of 8. Each iteration of a rep string instruction is an instruction, as
 * for -icount; an instruction that faults counts again when it is restarted. A
 * block that faults has already fetched all its lines. With thread=multi each
 * entered block counts whole; the result then says "exact no".
 *
 * Cost against the same QEMU line without plugin, in CPU time, with cache=off and
 * cache=on: a whole boot of the guest list count.jump-label 2.0 and 2.5 (median of 4,
 * interleaved); single regions, least of 12 repeats: pipe ping-pong 1.5 and 2.1,
 * fork and wait 2.6 and 4.2, a user-space sort 2.6 and 3.8. All on a busy machine.
 * The aim, 2.2 and 4, is met for the boot and the pipe, missed for the other two.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KCOUNT_VERSION	"1"
#define COST		"cost over plain TCG: a boot 2.0 x with cache=off, 2.5 x with caches; " \
			"single regions 1.5 to 2.6 x and 2.1 to 4.2 x"

/*
 * The plugin API's generations are not compatible: 2 (QEMU 9.0) has no inline
 * counters by pointer, 3 changes insn_data, 7 changes every callback.
 */
#ifndef KCOUNT_API
#define KCOUNT_API	1
#endif
#if KCOUNT_API != 1
#error "kcount: only QEMU plugin API 1 (QEMU 7.2 to 8.2) is supported, not the one asked for"
#endif

/* The part of API 1 used here; the functions live in the QEMU binary. */
struct qemu_info {
	const char *target_name;
	struct { int min, cur; } version;
	bool system_emulation;
	struct { int smp_vcpus, max_vcpus; } system;
};

struct qemu_plugin_tb;
struct qemu_plugin_insn;

enum { CB_NO_REGS = 0 };
enum { MEM_RW = 3 };
enum { INLINE_ADD_U64 = 0 };

typedef void (*trans_cb)(uint64_t id, struct qemu_plugin_tb *tb);
typedef void (*exit_cb)(uint64_t id, void *udata);
typedef void (*exec_cb)(unsigned int cpu, void *udata);
typedef void (*mem_cb)(unsigned int cpu, uint32_t info, uint64_t addr, void *udata);

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, trans_cb cb);
void qemu_plugin_register_atexit_cb(uint64_t id, exit_cb cb, void *udata);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, exec_cb cb,
					  int flags, void *udata);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
					    exec_cb cb, int flags, void *udata);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn,
						int op, void *ptr, uint64_t imm);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, mem_cb cb,
				      int flags, int rw, void *udata);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb,
						 size_t i);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
unsigned int qemu_plugin_mem_size_shift(uint32_t info);
bool qemu_plugin_mem_is_store(uint32_t info);

#define EXPORT __attribute__((visibility("default")))
extern int qemu_plugin_version;
int qemu_plugin_install(uint64_t id, const struct qemu_info *info, int argc,
			char **argv);

EXPORT int qemu_plugin_version = KCOUNT_API;

#define ROI_MAGIC	0x4b43u
#define NREGIONS	128
#define MAX_VCPUS	64
#define MAX_SYMLEN	(64 * 1024)	/* a symbol without a successor ends here */
#define CHUNK		64		/* symbols whose counts are allocated together */

struct counts {
	uint64_t entries, insns, branches, taken, loads, stores;
	uint64_t l1i, l1d, llc, text_lines, inval, dirty;
};

struct region {
	uint64_t entries;
	uint64_t text_lines[2], text_pages[2];	/* kernel, user */
	unsigned int id, depth;
	struct counts **sym;			/* by symbol index / CHUNK */
	struct counts *range;			/* by range index */
};

/* Symbol 0 is all of user space, 1 is kernel text without a symbol. */
enum { SYM_USER, SYM_UNKNOWN, SYM_FIRST };

struct symbol {
	uint64_t start;
	const char *name;
};

struct range {
	const char *name;
	uint64_t start, end, stride, off, off_end;
};

/* Ranges whose [start, end) meet; ranges are sorted by start. */
struct group {
	uint64_t start, end;
	size_t first, n;
};

enum kind { K_NONE, K_COND, K_JUMP, K_IRET };	/* from K_COND on: a branch */

struct insn {
	uint32_t sym;
	uint8_t kind;
	bool entry;		/* first byte of its symbol */
	bool marker, stop;
	bool plain;		/* cannot fault: only registers */
	uint8_t roi;
};

/* A text line that a block touches, first by instruction insn. */
struct touch {
	uint64_t line;
	uint32_t sym;
	uint32_t insn;
};

/*
 * A translated block. QEMU translates the same code many times (every exec of
 * a program); one record serves them all, found by address and bytes.
 */
struct tb {
	/* what on_tb_quick() reads comes first */
	uint64_t pc, fall, target;	/* after the last insn; where it jumps */
	struct region *counts_for;	/* whose counts of insn 0's symbol these are */
	struct counts *counts;
	uint32_t n, nbranch, njump;
	bool uniform;			/* one symbol, no entry but at insn 0, no marker */
	bool entry;			/* insn 0 is the first of its symbol */
	bool follow;			/* its successor tells something */
	uint8_t kind;			/* of the last insn */
	struct touch *touch;
	uint32_t ntouch;
	uint32_t stop0;			/* insns up to and with the first marker */
	uint64_t seen[NREGIONS / 64];	/* text lines already noted for region */
	struct insn *insn;
	uint8_t *bytes;
	size_t nbytes;
	struct tb *next;
};

struct geom {
	uint64_t size, mask;
	unsigned int ways, line, shift;
};

/* Padded to a host line, so that vCPU threads do not share one. */
struct vcpu {
	struct tb *tb;		/* entered last */
	struct tb *prev;	/* ran to its end, successor not yet known */
	uint64_t iline;		/* text line fetched last */
	uint64_t *l1i, *l1d;
} __attribute__((aligned(64)));

/* What one data access did to the caches. */
struct events {
	unsigned int l1d, llc, inval, dirty;
};

static struct vcpu *vcpus;
static unsigned int nvcpus;
static struct region regions[NREGIONS];
static struct region *active[NREGIONS];
static unsigned int nactive;

static bool cache_on = true, model_on, warm_reset, multi;
static struct geom g_l1i, g_l1d, g_llc;
static uint64_t *llc;

/* Added to by translated code, read at the next block. */
static uint64_t icount, icount_seen;

/* Loads and stores of run.tb that are not charged yet, if it is uniform. */
static uint64_t mem_ops[2];

/* The block that runs now, and how many of its insns are charged already. */
static struct {
	struct tb *tb;
	struct vcpu *v;
	uint64_t done;
} run;

static struct symbol *symbols;		/* from SYM_FIRST on, sorted by start */
static uint32_t nsymbols = SYM_FIRST;
static struct range *ranges;
static size_t nranges;
static struct group *groups;
static size_t ngroups;
static uint64_t symbols_hash, ranges_hash;

static uint64_t bad_stops, unresolved, anomalies;
static uint64_t top = 32;
static const char *out_path;
static char *out_tmp;
static FILE *out;

/* ---- small helpers ---- */

static void *zalloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size);

	if (!p) {
		fprintf(stderr, "kcount: out of memory\n");
		_Exit(1);
	}
	return p;
}

static uint64_t fnv(uint64_t h, const void *p, size_t n)
{
	const uint8_t *b = p;

	while (n--)
		h = (h ^ *b++) * 0x100000001b3u;
	return h;
}
#define FNV_INIT 0xcbf29ce484222325u

static char lock_word;
static _Thread_local char self;
static char *owner;

static void lock(void)
{
	if (nvcpus == 1)
		return;
	while (__atomic_test_and_set(&lock_word, __ATOMIC_ACQUIRE))
		;
}

static void unlock(void)
{
	if (nvcpus > 1)
		__atomic_clear(&lock_word, __ATOMIC_RELEASE);
}

/* ---- a hash table of (a, b) pairs with two counters ---- */

struct pair {
	uint64_t a, b, inval, dirty;
	bool used;
};

struct table {
	struct pair *slot;
	size_t size, n;
};

static struct table text_set, line_table;

static size_t pair_home(uint64_t a, uint64_t b, size_t size)
{
	uint64_t h = (a ^ b * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;

	return (size_t)(h ^ h >> 32) & (size - 1);
}

static struct pair *table_slot(struct table *t, uint64_t a, uint64_t b)
{
	size_t i = pair_home(a, b, t->size);

	while (t->slot[i].used && (t->slot[i].a != a || t->slot[i].b != b))
		i = (i + 1) & (t->size - 1);
	return &t->slot[i];
}

/* The pair (a, b), added if it was not there; *added says so. */
static struct pair *table_get(struct table *t, uint64_t a, uint64_t b, bool *added)
{
	struct table old = *t;
	struct pair *p;
	size_t i;

	if (t->n * 2 >= t->size) {
		t->size = t->size ? t->size * 2 : 4096;
		t->slot = zalloc(t->size, sizeof(*t->slot));
		for (i = 0; i < old.size; i++)
			if (old.slot[i].used)
				*table_slot(t, old.slot[i].a, old.slot[i].b) = old.slot[i];
		free(old.slot);
	}
	p = table_slot(t, a, b);
	*added = !p->used;
	if (*added) {
		*p = (struct pair){ .a = a, .b = b, .used = true };
		t->n++;
	}
	return p;
}

/* ---- symbols ---- */

static uint32_t symbol_find(uint64_t addr)
{
	uint32_t lo = SYM_FIRST, hi = nsymbols, mid;

	if (!(addr >> 63))
		return SYM_USER;
	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (symbols[mid].start <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	lo--;
	if (lo < SYM_FIRST || addr - symbols[lo].start >= MAX_SYMLEN)
		return SYM_UNKNOWN;
	return lo;
}

static struct counts *counts_of(struct region *r, uint32_t sym)
{
	struct counts **c = &r->sym[sym / CHUNK];

	if (!*c)
		*c = zalloc(CHUNK, sizeof(**c));
	return *c + sym % CHUNK;
}

/* ---- caches ----
 *
 * A set is `ways` words, most recently used first: line number << 2 | state,
 * 0 for an empty way. A hit moves the word to the front, a miss puts a new one
 * there and the last falls out: strict LRU.
 */
enum { ST_SHARED = 1, ST_EXCLUSIVE, ST_MODIFIED };

static uint64_t *set_of(const struct geom *g, uint64_t *ways, uint64_t line)
{
	return ways + (line & g->mask) * g->ways;
}

/* The line's word, moved to the front of its set; NULL on a miss. */
static inline uint64_t *cache_hit(const struct geom *g, uint64_t *ways, uint64_t line)
{
	uint64_t *s = set_of(g, ways, line), word;
	unsigned int w;

	for (w = 0; w < g->ways; w++) {
		word = s[w];
		if (word >> 2 == line && word) {
			if (w) {
				memmove(s + 1, s, w * sizeof(*s));
				s[0] = word;
			}
			return s;
		}
	}
	return NULL;
}

static void cache_fill(const struct geom *g, uint64_t *ways, uint64_t line, int state)
{
	uint64_t *s = set_of(g, ways, line);
	unsigned int w = 0;

	while (w < g->ways - 1 && s[w])		/* an invalidated way, or the LRU one */
		w++;
	memmove(s + 1, s, w * sizeof(*s));
	s[0] = line << 2 | (uint64_t)state;
}

static bool llc_miss(uint64_t addr)
{
	uint64_t line = addr >> g_llc.shift;

	if (cache_hit(&g_llc, llc, line))
		return false;
	cache_fill(&g_llc, llc, line, ST_SHARED);
	return true;
}

/* Look for the line in all other L1Ds; true if one of them keeps a copy. */
static bool snoop(const struct vcpu *me, uint64_t line, bool store, struct events *ev)
{
	bool shared = false, added;
	unsigned int i, w, inval = 0, dirty = 0;
	struct pair *p;
	uint64_t *s;

	for (i = 0; i < nvcpus; i++) {
		if (&vcpus[i] == me)
			continue;
		s = set_of(&g_l1d, vcpus[i].l1d, line);
		for (w = 0; w < g_l1d.ways; w++)
			if (s[w] && s[w] >> 2 == line)
				break;
		if (w == g_l1d.ways)
			continue;
		dirty += (s[w] & 3) == ST_MODIFIED;
		if (store) {
			inval++;
			s[w] = 0;
		} else {
			shared = true;
			s[w] = line << 2 | ST_SHARED;
		}
	}
	ev->inval += inval;
	ev->dirty += dirty;
	for (i = 0; (inval || dirty) && i < nactive; i++) {
		p = table_get(&line_table, line, active[i]->id, &added);
		p->inval += inval;
		p->dirty += dirty;
	}
	return shared;
}

static void data_access(struct vcpu *v, uint64_t line, bool store, struct events *ev)
{
	uint64_t *word = cache_hit(&g_l1d, v->l1d, line);
	unsigned int dirty = ev->dirty;
	bool shared = false;

	if (word) {
		if (!store)
			return;
		if (nvcpus > 1 && (*word & 3) == ST_SHARED)
			snoop(v, line, true, ev);
		*word = line << 2 | ST_MODIFIED;
		return;
	}
	if (nvcpus > 1)
		shared = snoop(v, line, store, ev);
	cache_fill(&g_l1d, v->l1d, line,
		   store ? ST_MODIFIED : shared ? ST_SHARED : ST_EXCLUSIVE);
	ev->l1d++;
	if (llc_miss(line << g_l1d.shift) && ev->dirty == dirty)
		ev->llc++;
}

/* ---- ranges ---- */

static bool range_meets(const struct range *r, uint64_t first, uint64_t last)
{
	uint64_t o;

	if (last < r->start || first >= r->end)
		return false;
	if (!r->stride)
		return true;
	if (first < r->start)
		first = r->start;
	o = (first - r->start) % r->stride;
	last = o + (last - first);
	return (o < r->off_end && last >= r->off) || last >= r->stride + r->off;
}

static void charge_ranges(uint64_t first, uint64_t last, bool store,
			  const struct events *ev)
{
	size_t lo = 0, hi = ngroups, mid, k;
	struct counts *c;
	unsigned int i;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (groups[mid].end <= first)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < ngroups && groups[lo].start <= last; lo++) {
		for (k = groups[lo].first; k < groups[lo].first + groups[lo].n; k++) {
			if (!range_meets(&ranges[k], first, last))
				continue;
			for (i = 0; i < nactive; i++) {
				c = &active[i]->range[k];
				c->loads += !store;
				c->stores += store;
				c->l1d += ev->l1d;
				c->llc += ev->llc;
				c->inval += ev->inval;
				c->dirty += ev->dirty;
			}
		}
	}
}

/* ---- what runs ---- */

static inline void charge_whole(const struct tb *t, struct counts *c)
{
	c->loads += mem_ops[0];
	c->stores += mem_ops[1];
	c->insns += t->n;
	c->branches += t->nbranch;
	c->taken += t->njump;
	c->entries += t->entry;
}

/* Charge insns [from, to) of t, which have been executed, and mem_ops. */
static void charge(struct tb *t, uint64_t from, uint64_t to)
{
	struct counts *c;
	unsigned int i;
	uint64_t k;

	for (i = 0; i < nactive; i++) {
		if (t->counts_for != active[i]) {
			t->counts_for = active[i];
			t->counts = counts_of(active[i], t->insn[0].sym);
		}
		if (t->uniform && !from && to == t->n) {
			charge_whole(t, t->counts);
			continue;
		}
		t->counts->loads += mem_ops[0];
		t->counts->stores += mem_ops[1];
		for (k = from; k < to; k++) {
			c = counts_of(active[i], t->insn[k].sym);
			c->insns++;
			c->branches += t->insn[k].kind >= K_COND;
			c->taken += t->insn[k].kind > K_COND;
			c->entries += t->insn[k].entry;
		}
	}
	mem_ops[0] = 0;
	mem_ops[1] = 0;
}

/* Charge what has been executed since the last call: a part of run.tb. */
static void settle(void)
{
	uint64_t d = icount - icount_seen, from = run.done;
	struct tb *t = run.tb;

	icount_seen = icount;
	if (!t || multi)
		return;
	run.done += d;
	if (run.done > t->n) {
		anomalies++;
		run.done = t->n;
	}
	charge(t, from, run.done);
}

/*
 * Conditional branches after which an interrupt came: whether they were taken
 * shows when an iret leads to one of their two successors.
 */
static struct tb *open_branch[16];
static unsigned int nopen;

static void count_taken(const struct tb *t)
{
	unsigned int i;

	for (i = 0; i < nactive; i++)
		counts_of(active[i], t->insn[t->n - 1].sym)->taken++;
}

static void drop_open_branches(unsigned int n)
{
	unresolved += n;
	nopen -= n;
	memmove(open_branch, open_branch + n, nopen * sizeof(*open_branch));
}

/* Block p ran to its end and pc is next, which does not just follow it. */
static void follow(struct tb *p, uint64_t pc)
{
	unsigned int i;

	if (p->kind == K_COND) {
		if (pc == p->target) {
			count_taken(p);
			return;
		}
		if (nopen == sizeof(open_branch) / sizeof(*open_branch))
			drop_open_branches(1);
		open_branch[nopen++] = p;
	} else if (p->kind == K_IRET) {
		for (i = nopen; i--; ) {
			p = open_branch[i];
			if (pc != p->fall && pc != p->target)
				continue;
			if (pc != p->fall)
				count_taken(p);
			nopen--;
			memmove(open_branch + i, open_branch + i + 1,
				(nopen - i) * sizeof(*open_branch));
			return;
		}
	}
}

/* Insns [from, to) of t are about to run: their text lines go through the L1I. */
static void fetch(struct vcpu *v, const struct tb *t, uint32_t from, uint32_t to)
{
	const struct touch *x = t->touch, *end = x + t->ntouch;
	struct counts *c;
	unsigned int i;
	bool miss;

	for (; x < end && x->insn < to; x++) {
		if (x->line == v->iline || x->insn < from)
			continue;
		v->iline = x->line;
		if (cache_hit(&g_l1i, v->l1i, x->line))
			continue;
		cache_fill(&g_l1i, v->l1i, x->line, ST_SHARED);
		miss = llc_miss(x->line << g_l1i.shift);
		for (i = 0; i < nactive; i++) {
			c = counts_of(active[i], x->sym);
			c->l1i++;
			c->llc += miss;
		}
	}
}

/* Keys of text_set: a = line or page, b = region and what is counted. */
enum { TEXT_SYMBOL, TEXT_LINE, TEXT_PAGE };

static bool text_new(uint64_t a, unsigned int what, unsigned int roi, uint32_t sym)
{
	bool added;

	table_get(&text_set, a, (uint64_t)what << 62 | (uint64_t)roi << 32 | sym, &added);
	return added;
}

static void note_text(struct tb *t, uint32_t from, uint32_t to)
{
	const struct touch *x, *end = t->touch + t->ntouch;
	unsigned int i, mode;
	struct region *r;

	for (i = 0; i < nactive; i++) {
		r = active[i];
		if (t->seen[r->id / 64] >> r->id % 64 & 1)
			continue;
		if (!from && to == t->n)
			t->seen[r->id / 64] |= (uint64_t)1 << r->id % 64;
		for (x = t->touch; x < end && x->insn < to; x++) {
			if (x->insn < from)
				continue;
			mode = x->sym == SYM_USER;
			if (text_new(x->line, TEXT_SYMBOL, r->id, x->sym))
				counts_of(r, x->sym)->text_lines++;
			if (text_new(x->line, TEXT_LINE, r->id, 0))
				r->text_lines[mode]++;
			if (text_new(x->line << g_l1i.shift >> 12, TEXT_PAGE, r->id, 0))
				r->text_pages[mode]++;
		}
	}
}

static void on_tb(unsigned int cpu, void *udata)
{
	struct vcpu *v = &vcpus[cpu];
	struct tb *t = udata;

	lock();
	if (nvcpus > 1) {
		if (!owner)
			owner = &self;
		multi |= owner != &self;	/* vCPUs in threads of their own */
	}
	settle();
	if (run.v && run.done == run.tb->n && run.tb->follow)
		run.v->prev = run.tb;
	if (v->prev) {
		if (nactive && t->pc != v->prev->fall)
			follow(v->prev, t->pc);
		v->prev = NULL;
	}
	run.tb = v->tb = t;
	run.v = v;
	run.done = 0;
	if (model_on && (t->ntouch > 1 || t->touch->line != v->iline))
		fetch(v, t, 0, t->stop0);
	if (nactive) {
		if (nactive > 1 || !(t->seen[active[0]->id / 64] >> active[0]->id % 64 & 1))
			note_text(t, 0, t->stop0);
		if (multi) {
			charge(t, 0, t->n);
			run.done = t->n;
		}
	}
	unlock();
}

/* on_tb() for one vCPU and one region in which both blocks were seen before. */
static void on_tb_quick(unsigned int cpu, void *udata)
{
	struct tb *t = udata, *p = run.tb;
	struct region *r = active[0];

	if (nactive != 1 || !p || p->counts_for != r || t->counts_for != r || !p->uniform ||
	    !t->uniform || run.done || icount - icount_seen != p->n) {
		on_tb(cpu, udata);
		return;
	}
	icount_seen = icount;
	charge_whole(p, p->counts);
	mem_ops[0] = 0;
	mem_ops[1] = 0;
	if (p->follow && t->pc != p->fall)
		follow(p, t->pc);
	vcpus->tb = run.tb = t;
	if (model_on && (t->ntouch > 1 || t->touch->line != vcpus->iline))
		fetch(vcpus, t, 0, t->stop0);
}

static void region_start(struct region *r)
{
	r->entries++;
	if (r->depth++)
		return;
	if (!r->sym) {
		r->sym = zalloc(nsymbols / CHUNK + 1, sizeof(*r->sym));
		r->range = zalloc(nranges, sizeof(*r->range));
	}
	active[nactive++] = r;
	model_on = cache_on;
}

static void region_stop(struct region *r)
{
	unsigned int i;

	if (!r->depth) {
		bad_stops++;
		return;
	}
	if (--r->depth)
		return;
	for (i = 0; active[i] != r; i++)
		;
	nactive--;
	memmove(active + i, active + i + 1, (nactive - i) * sizeof(*active));
	if (!nactive)
		drop_open_branches(nopen);
}

/* The insn itself has no inline counter: it is counted here, outside. */
static void on_marker(unsigned int cpu, void *udata)
{
	struct vcpu *v = &vcpus[cpu];
	struct insn *m = udata;
	struct tb *t;
	uint32_t i, to;

	lock();
	settle();
	if (m->stop)
		region_stop(&regions[m->roi]);
	icount++;
	settle();
	if (!m->stop)
		region_start(&regions[m->roi]);

	t = v->tb;
	i = (uint32_t)(m - t->insn) + 1;
	for (to = i; to < t->n && !t->insn[to].marker; to++)
		;
	if (to < t->n)
		to++;
	if (model_on)
		fetch(v, t, i, to);
	note_text(t, i, to);
	unlock();
}

/* What QEMU says of an access, by its info word; key 0 is an empty slot. */
static struct memo {
	uint64_t key;
	uint8_t store, last;
} memo[64];

static inline const struct memo *access_kind(uint32_t info)
{
	uint64_t key = (uint64_t)1 << 32 | info;
	struct memo *m = &memo[(info ^ info >> 6 ^ info >> 14) % 64];

	if (m->key != key) {
		m->key = key;
		m->store = qemu_plugin_mem_is_store(info);
		m->last = (uint8_t)((1u << qemu_plugin_mem_size_shift(info)) - 1);
	}
	return m;
}

/* Enough for a uniform block with one vCPU, no caches and no ranges. */
static void on_mem_count(unsigned int cpu, uint32_t info, uint64_t addr, void *udata)
{
	(void)cpu;
	(void)addr;
	(void)udata;
	mem_ops[access_kind(info)->store]++;
}

static void on_mem(unsigned int cpu, uint32_t info, uint64_t addr, void *udata)
{
	const struct memo *m;
	const struct insn *insn = udata;
	struct events ev = { 0 };
	unsigned int i;
	struct counts *c;
	uint64_t last;
	bool store;

	if (!model_on && !nactive)
		return;
	lock();
	m = access_kind(info);
	store = m->store;
	last = addr + m->last;

	if (model_on)
		data_access(&vcpus[cpu], addr >> g_l1d.shift, store, &ev);
	if (model_on && addr >> g_l1d.shift != last >> g_l1d.shift)
		data_access(&vcpus[cpu], last >> g_l1d.shift, store, &ev);
	if (run.v == &vcpus[cpu] && run.tb->uniform && nactive && !multi) {
		mem_ops[store]++;
	} else {
		for (i = 0; i < nactive; i++) {
			c = counts_of(active[i], insn->sym);
			c->loads += !store;
			c->stores += store;
		}
	}
	if (ev.l1d | ev.inval) {
		for (i = 0; i < nactive; i++) {
			c = counts_of(active[i], insn->sym);
			c->l1d += ev.l1d;
			c->llc += ev.llc;
			c->inval += ev.inval;
			c->dirty += ev.dirty;
		}
	}
	if (ngroups && nactive)
		charge_ranges(addr, last, store, &ev);
	unlock();
}

/* For one vCPU, a uniform block and no ranges: a hit in the first way. */
static void on_mem_first(unsigned int cpu, uint32_t info, uint64_t addr, void *udata)
{
	const struct memo *m = access_kind(info);
	uint64_t line = addr >> g_l1d.shift, word;

	if (model_on && (addr + m->last) >> g_l1d.shift == line) {
		word = *set_of(&g_l1d, vcpus->l1d, line);
		if (word >> 2 == line && word) {
			mem_ops[m->store]++;
			return;
		}
	}
	on_mem(cpu, info, addr, udata);
}

/* ---- translation ---- */

/* What kind of branch the insn is; *rel is set for a conditional one. */
static enum kind decode(const uint8_t *b, size_t n, int64_t *rel)
{
	size_t i = 0;
	uint32_t u;

	while (i < n && (b[i] == 0x26 || b[i] == 0x2e || b[i] == 0x36 ||
			 b[i] == 0x3e || (b[i] >= 0x64 && b[i] <= 0x67) ||
			 b[i] == 0xf0 || b[i] == 0xf2 || b[i] == 0xf3 ||
			 (b[i] & 0xf0) == 0x40))
		i++;
	if (i == n)
		return K_NONE;
	if ((b[i] & 0xf0) == 0x70 || (b[i] & 0xfc) == 0xe0) {
		*rel = (int8_t)b[n - 1];
		return K_COND;
	}
	switch (b[i]) {
	case 0xc2: case 0xc3: case 0xca: case 0xcb:	/* ret */
	case 0xcc: case 0xcd: case 0xf1:		/* int */
	case 0xe8: case 0xe9: case 0xeb:		/* call, jmp */
	case 0x9a: case 0xea:				/* far, not in long mode */
		return K_JUMP;
	case 0xcf:
		return K_IRET;
	case 0xff:					/* indirect, near and far */
		return i + 1 < n && (b[i + 1] >> 3 & 7) >= 2 &&
		       (b[i + 1] >> 3 & 7) <= 5 ? K_JUMP : K_NONE;
	case 0x0f:
		if (i + 1 == n)
			return K_NONE;
		if ((b[i + 1] & 0xf0) == 0x80 && n - i >= 6) {
			u = b[n - 4] | (uint32_t)b[n - 3] << 8 |
			    (uint32_t)b[n - 2] << 16 | (uint32_t)b[n - 1] << 24;
			*rel = (int32_t)u;
			return K_COND;
		}
		return b[i + 1] == 0x05 || b[i + 1] == 0x07 ||	/* syscall, sysret */
		       b[i + 1] == 0x34 || b[i + 1] == 0x35 ?	/* sysenter, sysexit */
		       K_JUMP : K_NONE;
	}
	return K_NONE;
}

/*
 * True only for insns that work on registers alone and cannot fault. One that
 * is not known here is merely counted by itself, not together with the next.
 */
static bool decode_plain(const uint8_t *b, size_t n)
{
	uint8_t op, modrm, reg;
	size_t i = 0;

	while (i < n && (b[i] == 0x66 || (b[i] & 0xf0) == 0x40))
		i++;
	if (i == n)
		return false;
	op = b[i++];
	if ((op & 0xc6) == 0x04 || (op & 0xf8) == 0x90 || (op & 0xf0) == 0xb0 ||
	    op == 0x98 || op == 0x99 || op == 0xa8 || op == 0xa9)
		return true;			/* no modrm byte */
	if (i == n)
		return false;
	modrm = b[i];
	reg = modrm >> 3 & 7;
	if (op == 0x0f) {
		op = modrm;
		if ((op & 0xf8) == 0xc8)	/* bswap */
			return true;
		if (op == 0x1f)			/* long nop */
			return true;
		return i + 1 < n && b[i + 1] >= 0xc0 &&
		       ((op & 0xf0) == 0x40 ||	/* cmov */
			(op & 0xf0) == 0x90 ||	/* set */
			op == 0xaf || op == 0xb6 || op == 0xb7 || op == 0xbe || op == 0xbf);
	}
	if (op == 0x8d)				/* lea */
		return modrm < 0xc0;
	if (modrm < 0xc0)
		return false;
	if ((op & 0xc4) == 0x00)		/* add, or, ... cmp */
		return true;
	switch (op) {
	case 0x63: case 0x69: case 0x6b: case 0x80: case 0x81: case 0x83:
	case 0x84: case 0x85: case 0x86: case 0x87: case 0x88: case 0x89:
	case 0x8a: case 0x8b: case 0xc0: case 0xc1: case 0xd0: case 0xd1:
	case 0xd2: case 0xd3:
		return true;
	case 0xc6: case 0xc7:
		return !reg && modrm < 0xf8;
	case 0xf6: case 0xf7:			/* not div */
		return reg < 6;
	case 0xfe: case 0xff:			/* inc, dec */
		return reg < 2;
	}
	return false;
}

static bool decode_marker(const uint8_t *b, size_t n, struct insn *x)
{
	uint32_t disp;

	if (n != 8 || b[0] != 0x0f || b[1] != 0x1f || b[2] != 0x84 || b[3])
		return false;
	disp = b[4] | (uint32_t)b[5] << 8 | (uint32_t)b[6] << 16 | (uint32_t)b[7] << 24;
	if (disp >> 8 != ROI_MAGIC << 8)
		return false;
	x->marker = true;
	x->stop = disp & 0x80;
	x->roi = disp & 0x7f;
	return true;
}

static struct tb **tb_hash;
static size_t tb_size, tb_n;

static void tb_insert(struct tb *t, uint64_t h)
{
	struct tb **slot = &tb_hash[h & (tb_size - 1)];

	t->next = *slot;
	*slot = t;
}

static uint64_t tb_key(uint64_t pc, uint32_t n, const uint8_t *bytes, size_t nbytes)
{
	uint64_t h = fnv(fnv(fnv(FNV_INIT, &pc, sizeof(pc)), &n, sizeof(n)), bytes, nbytes);

	return h ^ h >> 32;
}

static void tb_grow(void)
{
	struct tb **old = tb_hash, *t, *next;
	size_t i, n = tb_size;

	tb_size = n ? n * 2 : 1 << 14;
	tb_hash = zalloc(tb_size, sizeof(*tb_hash));
	for (i = 0; i < n; i++) {
		for (t = old[i]; t; t = next) {
			next = t->next;
			tb_insert(t, tb_key(t->pc, t->n, t->bytes, t->nbytes));
		}
	}
	free(old);
}

/* Fill in t from the sizes of its insns; pc, n and bytes are set. */
static void tb_analyse(struct tb *t, const uint8_t *size)
{
	struct touch *x = t->touch = zalloc(t->n * 2, sizeof(*x));
	uint64_t a = t->pc, line, have = ~(uint64_t)0;
	const uint8_t *b = t->bytes;
	int64_t rel = 0;
	uint32_t i;

	t->stop0 = t->n;
	t->uniform = true;
	for (i = 0; i < t->n; i++) {
		struct insn *in = &t->insn[i];

		in->sym = symbol_find(a);
		in->entry = in->sym >= SYM_FIRST && symbols[in->sym].start == a;
		in->kind = (uint8_t)decode(b, size[i], &rel);
		in->plain = decode_plain(b, size[i]);
		t->nbranch += in->kind >= K_COND;
		t->njump += in->kind > K_COND;
		if (decode_marker(b, size[i], in)) {
			t->uniform = false;
			if (t->stop0 == t->n)
				t->stop0 = i + 1;
		}
		if (i && (in->entry || in->sym != t->insn[0].sym))
			t->uniform = false;
		for (line = a >> g_l1i.shift; line <= (a + size[i] - 1) >> g_l1i.shift; line++) {
			/* two lines an insn at most: lines have 16 bytes or more */
			if (line == have && in->sym == x[-1].sym && !(i && t->insn[i - 1].marker))
				continue;
			*x++ = (struct touch){ .line = line, .sym = in->sym, .insn = i };
			have = line;
		}
		a += size[i];
		b += size[i];
	}
	t->ntouch = (uint32_t)(x - t->touch);
	t->kind = t->insn[t->n - 1].kind;
	t->entry = t->insn[0].entry;
	t->follow = t->kind == K_COND || t->kind == K_IRET;
	t->fall = a;
	t->target = a + (uint64_t)rel;
}

static void on_trans(uint64_t id, struct qemu_plugin_tb *qtb)
{
	static uint8_t bytes[1 << 16], size[1 << 12];
	size_t n = qemu_plugin_tb_n_insns(qtb), nbytes = 0, k;
	struct qemu_plugin_insn *q;
	mem_cb on_access;
	uint64_t pc, h;
	struct tb *t;
	uint32_t i;

	(void)id;
	if (!n)
		return;
	lock();
	if (n > sizeof(size))
		n = sizeof(size);
	pc = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(qtb, 0));
	for (i = 0; i < n; i++) {
		q = qemu_plugin_tb_get_insn(qtb, i);
		k = qemu_plugin_insn_size(q) & 15;
		memcpy(bytes + nbytes, qemu_plugin_insn_data(q), k);
		size[i] = (uint8_t)k;
		nbytes += k;
	}
	if (tb_n * 2 >= tb_size)
		tb_grow();
	h = tb_key(pc, (uint32_t)n, bytes, nbytes);
	for (t = tb_hash[h & (tb_size - 1)]; t; t = t->next)
		if (t->pc == pc && t->n == n && t->nbytes == nbytes &&
		    !memcmp(t->bytes, bytes, nbytes))
			break;
	if (!t) {
		t = zalloc(1, sizeof(*t));
		t->pc = pc;
		t->n = (uint32_t)n;
		t->insn = zalloc(n, sizeof(*t->insn));
		t->bytes = zalloc(nbytes, 1);
		memcpy(t->bytes, bytes, nbytes);
		t->nbytes = nbytes;
		tb_analyse(t, size);
		tb_insert(t, h);
		tb_n++;
	}

	on_access = nvcpus > 1 || ngroups || !t->uniform ? on_mem :
		    cache_on ? on_mem_first : on_mem_count;
	qemu_plugin_register_vcpu_tb_exec_cb(qtb, nvcpus > 1 ? on_tb : on_tb_quick,
					     CB_NO_REGS, t);
	for (i = 0; i < n; i++) {
		q = qemu_plugin_tb_get_insn(qtb, i);
		/*
		 * One add for a run of insns of which only the last may fault:
		 * whenever the block is left, it has counted what was executed.
		 * The last insn is by itself: if it crosses a page, 7.2 shows it
		 * here, takes it out of the block and translates it again.
		 */
		if (t->insn[i].marker) {
			qemu_plugin_register_vcpu_insn_exec_cb(q, on_marker, CB_NO_REGS,
							       &t->insn[i]);
		} else if (!i || t->insn[i - 1].marker || !t->insn[i - 1].plain ||
			   i == n - 1) {
			for (k = 1; i + k < n - 1 && t->insn[i + k - 1].plain &&
			     !t->insn[i + k].marker; k++)
				;
			qemu_plugin_register_vcpu_insn_exec_inline(q, INLINE_ADD_U64,
								   &icount, k);
		}
		/*
		 * Both directions in one callback and no inline adds: 7.2 filters
		 * inline adds wrongly (W matches loads too), and for accesses of
		 * helpers it stops at the first entry that does not match.
		 */
		qemu_plugin_register_vcpu_mem_cb(q, on_access, CB_NO_REGS, MEM_RW, &t->insn[i]);
	}
	unlock();
}

/* ---- the result ---- */

static void put_counts(const struct counts *c, uint64_t pages, bool is_region,
		       bool is_text)
{
	bool coh = cache_on && nvcpus > 1;
	const struct { uint64_t v; bool show; } col[] = {
		{ c->entries, is_text }, { c->insns, is_text },
		{ c->branches, is_text }, { c->taken, is_text },
		{ c->loads, true }, { c->stores, true },
		{ c->l1i, is_text && cache_on }, { c->l1d, cache_on },
		{ c->llc, cache_on },
		{ c->text_lines, is_text }, { pages, is_region },
		{ c->inval, coh }, { c->dirty, coh },
	};
	size_t i;

	for (i = 0; i < sizeof(col) / sizeof(*col); i++) {
		if (col[i].show)
			fprintf(out, "\t%" PRIu64, col[i].v);
		else
			fputs("\t-", out);
	}
	fputc('\n', out);
}

static void put_regions(void)
{
	static const char *const name[] = { "kernel", "user" };
	struct counts sum, *c;
	struct region *r;
	unsigned int mode;
	uint32_t s;

	for (r = regions; r < regions + NREGIONS; r++) {
		for (mode = 0; r->entries && mode < 2; mode++) {
			sum = (struct counts){ 0 };
			for (s = 0; s < nsymbols; s++) {
				if (!r->sym[s / CHUNK] || (s == SYM_USER) != mode)
					continue;
				c = counts_of(r, s);
				sum.insns += c->insns;
				sum.branches += c->branches;
				sum.taken += c->taken;
				sum.loads += c->loads;
				sum.stores += c->stores;
				sum.l1i += c->l1i;
				sum.l1d += c->l1d;
				sum.llc += c->llc;
				sum.inval += c->inval;
				sum.dirty += c->dirty;
			}
			sum.entries = r->entries;
			sum.text_lines = r->text_lines[mode];
			fprintf(out, "region\t%u\t%s\t-", r->id, name[mode]);
			put_counts(&sum, r->text_pages[mode], true, true);
		}
	}
}

static const char *sym_name(uint32_t s)
{
	return s == SYM_USER ? "[user]" : s == SYM_UNKNOWN ? "[unknown]" : symbols[s].name;
}

static int by_name(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	int c = strcmp(sym_name(x), sym_name(y));

	return c ? c : x < y ? -1 : x > y;	/* index order is address order */
}

/* By name, so that diff aligns two kernels; the nth of one name is name~n. */
static void put_symbols(void)
{
	uint32_t *order = zalloc(nsymbols, sizeof(*order)), i, s, nth = 1;
	static const struct counts none;
	struct counts *c;
	struct region *r;

	for (i = 0; i < nsymbols; i++)
		order[i] = i;
	qsort(order, nsymbols, sizeof(*order), by_name);
	for (r = regions; r < regions + NREGIONS; r++) {
		for (i = 0; r->entries && i < nsymbols; i++) {
			s = order[i];
			nth = i && !strcmp(sym_name(s), sym_name(order[i - 1])) ? nth + 1 : 1;
			if (!r->sym[s / CHUNK])
				continue;
			c = counts_of(r, s);
			if (!memcmp(c, &none, sizeof(none)))
				continue;
			fprintf(out, "symbol\t%u\t%s\t%s", r->id,
				s == SYM_USER ? "user" : "kernel", sym_name(s));
			if (nth > 1)
				fprintf(out, "~%" PRIu32, nth);
			put_counts(c, 0, false, true);
		}
	}
	free(order);
}

static int by_range_name(const void *a, const void *b)
{
	return strcmp(ranges[*(const size_t *)a].name, ranges[*(const size_t *)b].name);
}

static void put_ranges(void)
{
	size_t *order = zalloc(nranges, sizeof(*order)), i;
	struct region *r;

	for (i = 0; i < nranges; i++)
		order[i] = i;
	qsort(order, nranges, sizeof(*order), by_range_name);
	for (r = regions; r < regions + NREGIONS; r++) {
		for (i = 0; r->entries && i < nranges; i++) {
			fprintf(out, "range\t%u\t-\t%s", r->id, ranges[order[i]].name);
			put_counts(&r->range[order[i]], 0, false, false);
		}
	}
	free(order);
}

static int by_events(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;
	uint64_t ex = x->inval + x->dirty, ey = y->inval + y->dirty;

	if (x->b != y->b)
		return x->b < y->b ? -1 : 1;
	if (ex != ey)
		return ex > ey ? -1 : 1;
	return x->a < y->a ? -1 : x->a > y->a;
}

static void put_lines(void)
{
	struct pair *p = zalloc(line_table.n, sizeof(*p));
	uint64_t shown = 0;
	size_t i, n = 0;

	for (i = 0; i < line_table.size; i++)
		if (line_table.slot[i].used)
			p[n++] = line_table.slot[i];
	qsort(p, n, sizeof(*p), by_events);
	for (i = 0; i < n; i++) {
		shown = i && p[i].b == p[i - 1].b ? shown + 1 : 1;
		if (shown > top)
			continue;
		fprintf(out, "line\t%" PRIu64 "\t-\t0x%016" PRIx64
			"\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t%" PRIu64 "\t%" PRIu64 "\n",
			p[i].b, p[i].a << g_l1d.shift, p[i].inval, p[i].dirty);
	}
	free(p);
}

static void put_geom(const char *name, const struct geom *g)
{
	if (cache_on)
		fprintf(out, "# %s\t%" PRIu64 ":%u:%u\n", name, g->size, g->ways, g->line);
	else
		fprintf(out, "# %s\t-\n", name);
}

static void put_meta(void)
{
	unsigned int i, n = 0;

	fprintf(out, "# kcount\t%s\n# api\t%d\n# vcpus\t%u\n", KCOUNT_VERSION,
		KCOUNT_API, nvcpus);
	fprintf(out, "# exact\t%s\n", multi ? "no" : nvcpus > 1 ?
		"no: coherence is a distribution" : "yes");
	fprintf(out, "# cache\t%s\n# warm\t%s\n", cache_on ? "on" : "off",
		warm_reset ? "reset" : "roi");
	put_geom("l1i", &g_l1i);
	put_geom("l1d", &g_l1d);
	put_geom("llc", &g_llc);
	fprintf(out, "# text_line_bytes\t%u\n", g_l1i.line);
	fprintf(out, "# symbols\t%" PRIu32 "\t%016" PRIx64 "\n", nsymbols - SYM_FIRST,
		symbols_hash);
	fprintf(out, "# ranges\t%zu\t%016" PRIx64 "\n", nranges, ranges_hash);
	fprintf(out, "# total_insns\t%" PRIu64 "\n", icount);
	fprintf(out, "# unmatched_stops\t%" PRIu64 "\n", bad_stops);
	fprintf(out, "# unresolved_branches\t%" PRIu64 "\n", unresolved + nopen);
	fprintf(out, "# anomalies\t%" PRIu64 "\n", anomalies);
	fputs("# open_regions\t", out);
	for (i = 0; i < NREGIONS; i++)
		if (regions[i].depth)
			fprintf(out, "%s%u", n++ ? "," : "", i);
	fputs(n ? "\n" : "-\n", out);
	fputs("section\troi\tmode\tname\tentries_n\tinsns_n\tbranches_n\ttaken_n\tloads_n\t"
	      "stores_n\tl1i_miss_n\tl1d_miss_n\tllc_miss_n\ttext_lines_n\ttext_pages_n\t"
	      "inval_n\tremote_dirty_n\n", out);
}

static void on_exit_cb(uint64_t id, void *udata)
{
	bool bad;

	(void)id;
	(void)udata;
	lock();
	if (!out)
		goto done;
	settle();
	put_meta();
	put_regions();
	if (nsymbols > SYM_FIRST)
		put_symbols();
	put_ranges();
	put_lines();
	bad = ferror(out);
	bad |= fclose(out) != 0;
	out = NULL;
	if (bad || rename(out_tmp, out_path)) {
		fprintf(stderr, "kcount: out=%s: cannot be written\n", out_path);
		remove(out_tmp);
	}
done:
	unlock();
}

/* ---- options: every refusal is one line, and returns false ---- */

#define refuse(...) (fprintf(stderr, "kcount: " __VA_ARGS__), fputc('\n', stderr), false)

/* A number at *s up to a byte of `end`; *s is left there. */
static bool number(const char **s, int base, const char *end, uint64_t *v)
{
	char *e;

	if (!((**s >= '0' && **s <= '9') || (base == 16 && **s >= 'A' && **s <= 'F') ||
	      (base == 16 && **s >= 'a' && **s <= 'f')))
		return false;
	*v = strtoull(*s, &e, base);
	*s = e;
	return *v != UINT64_MAX && strchr(end, *e);	/* strchr finds the NUL too */
}

static bool pow2(uint64_t v)
{
	return v && !(v & (v - 1));
}

static bool parse_geom(const char *key, const char *val, struct geom *g)
{
	uint64_t size, ways, line, unit = 1, sets;
	const char *s = val;

	if (!number(&s, 10, "KM:", &size))
		goto form;
	if (*s == 'K' || *s == 'M')
		unit = *s++ == 'K' ? 1 << 10 : 1 << 20;
	if (*s++ != ':' || !number(&s, 10, ":", &ways) || *s++ != ':' ||
	    !number(&s, 10, "", &line))
		goto form;
	if (!size || size > (UINT64_C(1) << 30) / unit)
		return refuse("%s=%s: the size must be 1 to 1024M bytes", key, val);
	size *= unit;
	if (!ways || ways > 64)
		return refuse("%s=%s: the ways must be 1 to 64", key, val);
	if (!pow2(line) || line < 16 || line > 4096)
		return refuse("%s=%s: the line must be a power of two, 16 to 4096", key, val);
	if (size % (ways * line))
		return refuse("%s=%s: the size is not a multiple of ways * line", key, val);
	sets = size / (ways * line);
	if (!pow2(sets))
		return refuse("%s=%s: %" PRIu64 " sets is not a power of two", key, val, sets);
	*g = (struct geom){ .size = size, .mask = sets - 1, .ways = (unsigned int)ways,
			    .line = (unsigned int)line };
	while (1u << g->shift < line)
		g->shift++;
	return true;
form:
	return refuse("%s=%s: not SIZE:WAYS:LINE, as in 32K:8:64", key, val);
}

/* The whole file, NUL-terminated; NULL after a refusal. */
static char *slurp(const char *key, const char *path, uint64_t *hash)
{
	size_t n = 0, cap = 1 << 16, got;
	FILE *f = fopen(path, "r");
	char *buf, *more;

	if (!f) {
		fprintf(stderr, "kcount: %s=", key);
		perror(path);
		return NULL;
	}
	buf = zalloc(cap, 1);
	while ((got = fread(buf + n, 1, cap - n - 1, f))) {
		n += got;
		if (n + 1 < cap)
			continue;
		more = zalloc(cap *= 2, 1);
		memcpy(more, buf, n);
		free(buf);
		buf = more;
	}
	buf[n] = '\0';
	if (ferror(f) || strlen(buf) != n || !n) {
		(void)refuse("%s=%s: empty, unreadable or not text", key, path);
		free(buf);
		buf = NULL;
	} else {
		*hash = fnv(FNV_INIT, buf, n);
	}
	fclose(f);
	return buf;
}

/* Cut the next line off *p; NULL at the end. */
static char *next_line(char **p)
{
	char *line = *p, *e;

	if (!*line)
		return NULL;
	e = strchr(line, '\n');
	*p = e ? e + 1 : line + strlen(line);
	if (e)
		*e = '\0';
	return line;
}

/* Cut the next word off *p; NULL if there is none. */
static char *next_word(char **p)
{
	char *w = *p + strspn(*p, " \t\r"), *e = w + strcspn(w, " \t\r");

	*p = *e ? e + 1 : e;
	*e = '\0';
	return *w ? w : NULL;
}

static int by_start(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* "ffffffff81000000 T _text" or "ffffffffa0000000 t init\t[module]" */
static bool load_symbols(const char *path)
{
	char *buf = slurp("symbols", path, &symbols_hash), *p = buf, *line;
	char *addr, *type, *name, *module, *join;
	size_t cap = 0, n = SYM_FIRST, i, no = 0;
	struct symbol *more;
	const char *s;
	uint64_t a;

	if (!buf)
		return false;
	while ((line = next_line(&p))) {
		no++;
		addr = next_word(&line);
		type = next_word(&line);
		name = next_word(&line);
		module = next_word(&line);
		s = addr;
		if (!name || type[1] || !number(&s, 16, "", &a))
			return refuse("symbols=%s:%zu: not ADDRESS TYPE NAME", path, no);
		if (!strchr("tTwW", *type) || !(a >> 63))
			continue;
		if (n >= cap) {
			cap = cap ? cap * 2 : 1 << 15;
			more = zalloc(cap, sizeof(*more));
			if (symbols)
				memcpy(more, symbols, n * sizeof(*more));
			free(symbols);
			symbols = more;
		}
		if (module) {
			join = zalloc(strlen(name) + strlen(module) + 1, 1);
			strcat(strcpy(join, name), module);
			name = join;
		}
		symbols[n++] = (struct symbol){ .start = a, .name = name };
	}
	if (n == SYM_FIRST)
		return refuse("symbols=%s: no kernel text symbols (kptr_restrict?)", path);
	if (n > UINT32_MAX)
		return refuse("symbols=%s: too many symbols", path);
	qsort(symbols + SYM_FIRST, n - SYM_FIRST, sizeof(*symbols), by_start);
	nsymbols = SYM_FIRST;
	for (i = SYM_FIRST; i < n; i++)		/* of aliases, the first by name stays */
		if (i == SYM_FIRST || symbols[i].start != symbols[nsymbols - 1].start)
			symbols[nsymbols++] = symbols[i];
	return true;
}

static int by_range_start(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return strcmp(x->name, y->name);
}

static bool span(const char *s, uint64_t *from, uint64_t *to)
{
	return s && number(&s, 16, "-", from) && *s++ == '-' && number(&s, 16, "", to) &&
	       *from < *to;
}

static bool load_ranges(const char *path)
{
	char *buf = slurp("ranges", path, &ranges_hash), *p = buf, *line, *w;
	size_t no = 0, cap = 0, i;
	struct range r, *more;
	const char *s;

	if (!buf)
		return false;
	while ((line = next_line(&p))) {
		no++;
		r = (struct range){ .name = next_word(&line) };
		if (!r.name || *r.name == '#')
			continue;
		if (!span(next_word(&line), &r.start, &r.end))
			return refuse("ranges=%s:%zu: not NAME START-END in hex", path, no);
		s = next_word(&line);
		if (s && (!number(&s, 16, "", &r.stride) || !r.stride ||
			  !span(next_word(&line), &r.off, &r.off_end) ||
			  r.off_end > r.stride))
			return refuse("ranges=%s:%zu: not STRIDE OFF-END in hex", path, no);
		w = next_word(&line);
		if (w)
			return refuse("ranges=%s:%zu: %s is one word too many", path, no, w);
		for (i = 0; i < nranges; i++)
			if (!strcmp(ranges[i].name, r.name))
				return refuse("ranges=%s:%zu: %s is given twice", path, no, r.name);
		if (nranges == cap) {
			cap = cap ? cap * 2 : 16;
			more = zalloc(cap, sizeof(*more));
			if (ranges)
				memcpy(more, ranges, nranges * sizeof(*more));
			free(ranges);
			ranges = more;
		}
		ranges[nranges++] = r;
	}
	if (!nranges)
		return refuse("ranges=%s: no range in it", path);
	qsort(ranges, nranges, sizeof(*ranges), by_range_start);
	groups = zalloc(nranges, sizeof(*groups));
	for (i = 0; i < nranges; i++) {
		struct group *g = ngroups ? &groups[ngroups - 1] : NULL;

		if (g && ranges[i].start < g->end) {
			g->n++;
			if (ranges[i].end > g->end)
				g->end = ranges[i].end;
		} else {
			groups[ngroups++] = (struct group){ ranges[i].start, ranges[i].end, i, 1 };
		}
	}
	return true;
}

static bool choice(const char *key, const char *val, const char *yes, const char *no,
		   bool *v)
{
	*v = !strcmp(val, yes);
	return *v || !strcmp(val, no) || refuse("%s=%s: not %s or %s", key, val, yes, no);
}

static bool open_out(void)
{
	size_t n = strlen(out_path);
	FILE *old;

	/* an old result must not pass for this run; nothing else may be removed */
	old = fopen(out_path, "r+");
	if (!strncmp(out_path, "/dev/", 5) || (!old && (old = fopen(out_path, "r"))))
		return refuse("out=%s: exists and is not a writable file", out_path);
	if (old && (fclose(old) || remove(out_path))) {
		fputs("kcount: out=", stderr);
		perror(out_path);
		return false;
	}
	out_tmp = zalloc(n + 5, 1);
	memcpy(out_tmp, out_path, n);
	memcpy(out_tmp + n, ".tmp", 4);
	out = fopen(out_tmp, "w");
	if (!out) {
		fputs("kcount: out=", stderr);
		perror(out_tmp);
		return false;
	}
	return true;
}

static bool help(void)
{
	fputs("kcount: QEMU TCG plugin: exact counts per marked region (see the head of kcount.c)\n"
	      "  out=PATH [cache=on|off] [l1i=32K:8:64] [l1d=32K:8:64] [llc=1M:16:64]\n"
	      "  [warm=roi|reset] [symbols=System.map] [ranges=FILE] [top=N]\n"
	      "  " COST "\n"
	      "  -plugin kcount.so,out=k.tsv,symbols=System.map\n"
	      "  -plugin kcount.so,out=k.tsv,cache=off\n", stderr);
	return false;
}

static bool options(int argc, char **argv)
{
	enum { OUT, CACHE, L1I, L1D, LLC, WARM, SYMBOLS, RANGES, TOP, HELP, NKEYS };
	static const char *const keys[NKEYS] = {
		"out", "cache", "l1i", "l1d", "llc", "warm", "symbols", "ranges", "top", "help",
	};
	const char *given[NKEYS] = { NULL }, *s;
	size_t len;
	int i, k;

	for (i = 0; i < argc; i++) {
		len = strcspn(argv[i], "=");
		for (k = 0; k < NKEYS; k++)
			if (strlen(keys[k]) == len && !strncmp(argv[i], keys[k], len))
				break;
		if (k == NKEYS || !argv[i][len])
			return refuse("%s: unknown option (help=on lists them)", argv[i]);
		if (given[k])
			return refuse("%s: given twice", argv[i]);
		given[k] = argv[i] + len + 1;
	}
	if (given[HELP])
		return help();
	if (!given[OUT] || !*given[OUT])
		return refuse("out=PATH is missing (help=on explains; %s)", COST);
	out_path = given[OUT];
	if (given[CACHE] && !choice("cache", given[CACHE], "on", "off", &cache_on))
		return false;
	if (given[WARM] && !choice("warm", given[WARM], "reset", "roi", &warm_reset))
		return false;
	if (!cache_on && (given[L1D] || given[LLC] || given[WARM]))
		return refuse("cache=off: l1d, llc and warm have no meaning with it");
	if (!parse_geom("l1i", given[L1I] ? given[L1I] : "32K:8:64", &g_l1i) ||
	    !parse_geom("l1d", given[L1D] ? given[L1D] : "32K:8:64", &g_l1d) ||
	    !parse_geom("llc", given[LLC] ? given[LLC] : "1M:16:64", &g_llc))
		return false;
	s = given[TOP];
	if (s && (!number(&s, 10, "", &top) || top > 1000000))
		return refuse("top=%s: not a number up to 1000000", given[TOP]);
	return (!given[SYMBOLS] || load_symbols(given[SYMBOLS])) &&
	       (!given[RANGES] || load_ranges(given[RANGES])) && open_out();
}

static uint64_t *new_cache(const struct geom *g)
{
	return zalloc((g->mask + 1) * g->ways, sizeof(uint64_t));
}

EXPORT int qemu_plugin_install(uint64_t id, const struct qemu_info *info, int argc,
			       char **argv)
{
	unsigned int i;

	if (info->version.cur != KCOUNT_API)
		return refuse("built for QEMU plugin API %d (QEMU 7.2 to 8.2), this QEMU has API %d",
			      KCOUNT_API, info->version.cur) - 1;
	if (strcmp(info->target_name, "x86_64"))
		return refuse("target %s: only x86_64 is decoded", info->target_name) - 1;
	if (!info->system_emulation)
		return refuse("user-mode emulation: needs qemu-system-x86_64") - 1;
	if (info->system.max_vcpus < 1 || info->system.max_vcpus > MAX_VCPUS)
		return refuse("%d vCPUs: 1 to %d are supported", info->system.max_vcpus,
			      MAX_VCPUS) - 1;
	if (!options(argc, argv))
		return -1;

	nvcpus = (unsigned int)info->system.max_vcpus;
	vcpus = zalloc(nvcpus + 1, sizeof(*vcpus));
	vcpus = (struct vcpu *)(((uintptr_t)vcpus + 63) & ~(uintptr_t)63);
	for (i = 0; i < nvcpus; i++)
		vcpus[i].iline = ~(uint64_t)0;
	for (i = 0; i < NREGIONS; i++)
		regions[i].id = i;
	if (cache_on) {
		llc = new_cache(&g_llc);
		for (i = 0; i < nvcpus; i++) {
			vcpus[i].l1i = new_cache(&g_l1i);
			vcpus[i].l1d = new_cache(&g_l1d);
		}
	}
	model_on = cache_on && warm_reset;
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_trans);
	qemu_plugin_register_atexit_cb(id, on_exit_cb, NULL);
	return 0;
}
