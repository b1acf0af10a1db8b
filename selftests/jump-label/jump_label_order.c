// SPDX-License-Identifier: GPL-2.0-only
/*
 * Check on the running kernel's image that the two jump_label objects, which
 * hold slow path only, do not lie between functions of hot paths.
 *
 * Which object a function came from is not in the image, so the check goes by
 * name: in each directory the functions below are hot in every kernel that has
 * them, and their objects stand in the order of the directory's Makefile. No function of the
 * jump_label object may have hot ones of its directory on both sides.
 *
 * An image whose functions are not in link order (LTO, a profile's order) says
 * nothing about the Makefiles: the test then skips, as it does without symbols
 * or addresses. It never passes for want of evidence.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kselftest_harness.h"

#define MIN_HOT	5	/* fewer known hot functions than this are no evidence */
#define MIN_OWN	3	/* likewise for functions of jump_label.o */

struct symbol {
	unsigned long long addr;
	char type;
	char name[128];
};

struct hot {
	const char *name;
	const char *object;
};

struct directory {
	const char *makefile;
	const char * const *own;	/* functions of jump_label.o */
	const struct hot *hot;	/* hot functions, their objects in link order */
};

static const char * const kernel_own[] = {
	"static_key_count", "static_key_slow_inc", "static_key_slow_dec",
	"static_key_enable", "static_key_disable", "jump_label_update_timeout",
	"jump_label_rate_limit", "jump_label_text_reserved", "jump_label_lock",
	"jump_label_unlock", "__jump_label_update", "jump_label_update", NULL
};

static const struct hot kernel_hot[] = {
	{ "__local_bh_enable_ip",	"softirq.o" },
	{ "task_work_run",		"task_work.o" },
	{ "try_to_wake_up",		"sched/core.o" },
	{ "update_curr",		"sched/fair.o" },
	{ "rcu_sched_clock_irq",	"rcu/tree.o" },
	{ "hrtimer_interrupt",		"time/hrtimer.o" },
	{ "ktime_get",			"time/timekeeping.o" },
	{ "futex_wake",			"futex/waitwake.o" },
	{ "smp_call_function_single",	"smp.o" },
	{ "irq_work_run",		"irq_work.o" },
	{ "perf_event_task_tick",	"events/core.o" },
	{ "__context_tracking_enter",	"context_tracking.o" },
	{ "ct_irq_enter_irqson",	"context_tracking.o" },
	{ "__rseq_handle_slowpath",	"rseq.o" },
	{ "__rseq_handle_notify_resume", "rseq.o" },
	{ NULL, NULL }
};

#if defined(__x86_64__) || defined(__i386__)
static const char * const x86_own[] = {
	"arch_jump_entry_size", "arch_jump_label_transform",
	"arch_jump_label_transform_queue", "arch_jump_label_transform_apply",
	"__jump_label_patch", NULL
};

static const struct hot x86_hot[] = {
	{ "__switch_to",		"process_64.o or process_32.o" },
	{ "arch_do_signal_or_restart",	"signal.o" },
	{ "arch_irq_work_raise",	"irq_work.o" },
	{ "read_tsc",			"tsc.o" },
	{ "__switch_to_xtra",		"process.o" },
	{ "fpu_clone",			"fpu/core.o" },
	{ "lapic_next_event",		"apic/apic.o" },
	{ "lapic_next_deadline",	"apic/apic.o" },
	{ "native_send_call_func_single_ipi", "apic/ipi.o" },
	{ NULL, NULL }
};
#endif

static int by_address(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* The first of CONFIG_ lines that say functions are not in link order. */
static const char *reordering_option(void)
{
	static char found[128];
	char line[256];
	FILE *f = popen("zcat /proc/config.gz 2>/dev/null", "r");

	found[0] = '\0';
	while (f && fgets(line, sizeof(line), f)) {
		if (strncmp(line, "CONFIG_LTO_CLANG=y", 18) &&
		    strncmp(line, "CONFIG_LTO_GCC=y", 16) &&
		    strncmp(line, "CONFIG_AUTOFDO_CLANG=y", 22) &&
		    strncmp(line, "CONFIG_PROPELLER_CLANG=y", 24) &&
		    strncmp(line, "CONFIG_FG_KASLR=y", 17))
			continue;
		line[strcspn(line, "=")] = '\0';
		snprintf(found, sizeof(found), "%.100s", line);
	}
	if (f)
		pclose(f);
	return found[0] ? found : NULL;
}

FIXTURE(order)
{
	struct symbol *sym;		/* ordinary text of the image, by address */
	size_t nr;
	const struct directory *dir;
};

FIXTURE_VARIANT(order)
{
	struct directory dir;
};

FIXTURE_VARIANT_ADD(order, kernel) {
	.dir = { "kernel/Makefile", kernel_own, kernel_hot },
};

#if defined(__x86_64__) || defined(__i386__)
FIXTURE_VARIANT_ADD(order, arch_x86_kernel) {
	.dir = { "arch/x86/kernel/Makefile", x86_own, x86_hot },
};
#endif

/*
 * Read /proc/kallsyms up to the modules and keep the ordinary text: what the
 * linker script puts behind it (noinstr, sched, locks...) has an order of its
 * own. Returns why there is nothing to check, or NULL.
 */
static const char *read_symbols(struct symbol **sym, size_t *nr)
{
	static const char * const behind[] = {
		"__noinstr_text_start", "__sched_text_start", "__lock_text_start", "_etext",
	};
	unsigned long long start = 0, end = ~0ULL;
	int any_address = 0;
	char line[512];
	size_t kept = 0;
	FILE *f = fopen("/proc/kallsyms", "r");

	if (!f)
		return "cannot read /proc/kallsyms (CONFIG_KALLSYMS is not set?)";
	*sym = NULL;
	*nr = 0;
	while (fgets(line, sizeof(line), f)) {
		struct symbol s;

		if (strchr(line, '['))
			break;	/* the first module */
		if (sscanf(line, "%llx %c %127s", &s.addr, &s.type, s.name) != 3)
			continue;
		any_address |= s.addr != 0;
		if (!strcmp(s.name, "_stext"))
			start = s.addr;
		for (size_t i = 0; i < ARRAY_SIZE(behind); i++)
			if (!strcmp(s.name, behind[i]) && s.addr < end)
				end = s.addr;
		if (s.type != 't' && s.type != 'T')
			continue;
		if (!(*nr & (*nr - 1))) {	/* grow at each power of two */
			struct symbol *more;

			more = realloc(*sym, sizeof(s) * (*nr ? *nr * 2 : 1));
			if (!more) {
				fclose(f);
				return "out of memory";
			}
			*sym = more;
		}
		(*sym)[(*nr)++] = s;
	}
	fclose(f);
	if (!*nr)
		return "/proc/kallsyms is empty (CONFIG_KALLSYMS is not set?)";
	if (!any_address)
		return "/proc/kallsyms hides addresses (kptr_restrict, or not root)";
	if (!start || end == ~0ULL || start >= end)
		return "/proc/kallsyms has no bounds of the text section";
	for (size_t i = 0; i < *nr; i++)
		if ((*sym)[i].addr >= start && (*sym)[i].addr < end)
			(*sym)[kept++] = (*sym)[i];
	*nr = kept;
	qsort(*sym, *nr, sizeof(**sym), by_address);
	return NULL;
}

FIXTURE_SETUP(order)
{
	const char *why, *option;

	self->dir = &variant->dir;
	why = read_symbols(&self->sym, &self->nr);
	if (why)
		SKIP(return, "%s", why);
	option = reordering_option();
	if (option)
		SKIP(return, "%s: object order not preserved", option);
	for (size_t i = 0; i < self->nr; i++)
		if (strstr(self->sym[i].name, ".llvm."))
			SKIP(return, "LTO: object order not preserved (%s)", self->sym[i].name);
}

FIXTURE_TEARDOWN(order)
{
	free(self->sym);
}

/* The function of that name; none if two objects have a static one so named. */
static const struct symbol *find(const struct symbol *sym, size_t nr, const char *name)
{
	const struct symbol *found = NULL;

	for (size_t i = 0; i < nr; i++) {
		if (strcmp(sym[i].name, name))
			continue;
		if (found)
			return NULL;
		found = &sym[i];
	}
	return found;
}

TEST_F(order, jump_label_is_not_between_hot_functions)
{
	const struct symbol *first = NULL, *last = NULL;	/* of jump_label.o */
	const struct symbol *below = NULL, *above = NULL;	/* the nearest hot ones */
	const struct symbol *done = NULL, *top = NULL;		/* highest so far */
	const struct hot *hot = self->dir->hot;
	int nr_own = 0, nr_hot = 0;

	for (int i = 0; self->dir->own[i]; i++) {
		const struct symbol *s = find(self->sym, self->nr, self->dir->own[i]);

		if (!s)
			continue;
		nr_own++;
		if (!first || s < first)
			first = s;
		if (!last || s > last)
			last = s;
	}
	if (nr_own < MIN_OWN)
		SKIP(return, "%d functions of jump_label.o found (CONFIG_JUMP_LABEL is not set?)",
		     nr_own);

	for (int i = 0; hot[i].name; i++) {
		const struct symbol *s = find(self->sym, self->nr, hot[i].name);

		if (i && strcmp(hot[i].object, hot[i - 1].object))
			done = top;	/* what comes must lie above */
		if (!s)
			continue;
		nr_hot++;
		if (done && s < done)
			SKIP(return, "%s before %s: not in link order (LTO, a profile?)",
			     s->name, done->name);
		if (s > first && s < last)
			SKIP(return, "%s inside jump_label.o: not in link order (LTO, a profile?)",
			     s->name);
		if (!top || s > top)
			top = s;
		if (s < first && (!below || s > below))
			below = s;
		if (s > last && (!above || s < above))
			above = s;
	}
	if (nr_hot < MIN_HOT)
		SKIP(return, "%d of the known hot functions found: no evidence", nr_hot);

	TH_LOG("%s: %d functions of jump_label.o at %llx-%llx, %d hot ones, nearest %s and %s",
	       self->dir->makefile, nr_own, first->addr, last->addr, nr_hot,
	       below ? below->name : "none below", above ? above->name : "none above");
	EXPECT_FALSE(below && above)
		TH_LOG("jump_label.o lies between %s and %s: move its line in %s behind them",
		       below->name, above->name, self->dir->makefile);
}

TEST_HARNESS_MAIN
