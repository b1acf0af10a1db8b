// SPDX-License-Identifier: GPL-2.0-only
/*
 * Allocate and free blocks of pages and count how often the buddy lists of the
 * zone, and with them zone->lock, are needed.
 *
 * An operation that the per-CPU lists (PCP) serve leaves NR_FREE_PAGES as it
 * is; one that refills or drains them, or goes past them, changes it. The work
 * is done in stop_machine(), so nobody else changes it in the meantime, and
 * the counts are exact.
 *
 * What leaves the buddy lists and is not handed out must be on the list of this
 * CPU: after each operation the change of NR_FREE_PAGES and that of pcp->count
 * add up to the size of the block, else it is a miscount. In the end pcp->count
 * is compared with what the lists really hold.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpumask.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/stop_machine.h>
#include <linux/vmalloc.h>
#include <linux/vmstat.h>

#define MAX_ROUNDS	8

static char *mode = "burst";
module_param(mode, charp, 0444);
MODULE_PARM_DESC(mode, "burst: allocate all blocks, then free them all; pairs: allocate, free, allocate, free...; apart: as burst, but freed on cpu2; look: only look at the list of cpu, which may be offline");

static unsigned int order = 1;
module_param(order, uint, 0444);
MODULE_PARM_DESC(order, "of the blocks");

static unsigned int blocks = 4096;
module_param(blocks, uint, 0444);
MODULE_PARM_DESC(blocks, "in a burst, or pairs");

static unsigned int rounds = 1;
module_param(rounds, uint, 0444);
MODULE_PARM_DESC(rounds, "how often all of that is done");

static unsigned int singles;
module_param(singles, uint, 0444);
MODULE_PARM_DESC(singles, "order-0 pages allocated after each block, freed with it");

static unsigned int cpu;
module_param(cpu, uint, 0444);
MODULE_PARM_DESC(cpu, "that allocates, and frees");

static unsigned int cpu2 = 1;
module_param(cpu2, uint, 0444);
MODULE_PARM_DESC(cpu2, "that frees in the mode apart");

static bool dma;
module_param(dma, bool, 0444);
MODULE_PARM_DESC(dma, "allocate from ZONE_DMA");

/* Results, for /sys/module; an array has one for each round, the last of them
 * for all rounds from there on.
 */
static char *zone_name = "";
module_param(zone_name, charp, 0444);
MODULE_PARM_DESC(zone_name, "where the pages came from (result)");

static int node;
module_param(node, int, 0444);
MODULE_PARM_DESC(node, "of that zone (result)");

static unsigned int strays;
module_param(strays, uint, 0444);
MODULE_PARM_DESC(strays, "pages of other zones, not counted (result)");

static unsigned int allocs[MAX_ROUNDS], frees[MAX_ROUNDS], refill_max[MAX_ROUNDS];
static unsigned int single_allocs[MAX_ROUNDS], single_refill_max[MAX_ROUNDS];
static int nr_results;
module_param_array(allocs, uint, &nr_results, 0444);
MODULE_PARM_DESC(allocs, "block allocations that needed the buddy lists (result)");
module_param_array(frees, uint, &nr_results, 0444);
MODULE_PARM_DESC(frees, "frees, of blocks and single pages, that needed the buddy lists (result)");
module_param_array(single_allocs, uint, &nr_results, 0444);
MODULE_PARM_DESC(single_allocs, "order-0 allocations that needed the buddy lists (result)");
module_param_array(refill_max, uint, &nr_results, 0444);
MODULE_PARM_DESC(refill_max, "the most pages that the allocation of one block took from the buddy lists (result)");
module_param_array(single_refill_max, uint, &nr_results, 0444);
MODULE_PARM_DESC(single_refill_max, "the same for one order-0 page (result)");

static unsigned int miscounts;
module_param(miscounts, uint, 0444);
MODULE_PARM_DESC(miscounts, "operations after which free pages and pcp->count did not add up (result)");

static long count, listed;
module_param(count, long, 0444);
MODULE_PARM_DESC(count, "pcp->count of cpu at the end (result)");
module_param(listed, long, 0444);
MODULE_PARM_DESC(listed, "pages that its lists hold at the end (result)");

static long free_lost;
module_param(free_lost, long, 0444);
MODULE_PARM_DESC(free_lost, "pages missing from NR_FREE_PAGES and pcp->count after all rounds (result)");

static struct page **pages;	/* (1 + singles) for each block */
static struct zone *zone;
static unsigned int round;	/* index of its results */
static int error;

/* How many pages the buddy lists gained (or lost, below 0) since the last call. */
static long buddy_change(void)
{
	static unsigned long last;
	unsigned long was = last;

	last = zone_page_state_snapshot(zone, NR_FREE_PAGES);
	return last - was;
}

/* How many pages this CPU's list gained since the last call. */
static long list_change(void)
{
	static int last;
	int was = last;

	last = per_cpu_ptr(zone->per_cpu_pageset, smp_processor_id())->count;
	return last - was;
}

/* Both of them from here on; what the buddy lists gained. */
static long change_by(long due)
{
	long buddy = buddy_change();

	if (buddy + list_change() != due)
		miscounts++;
	return buddy;
}

static void start(void)
{
	buddy_change();
	list_change();
}

static struct page *get(unsigned int ord, unsigned int *needed, unsigned int *max)
{
	gfp_t gfp = GFP_NOWAIT | __GFP_NOWARN | (dma ? GFP_DMA : 0) | (ord ? __GFP_COMP : 0);
	struct page *page;
	long change;

	page = alloc_pages(gfp, ord);
	change = change_by(page && page_zone(page) == zone ? -(1L << ord) : 0);
	if (!page) {
		error = -ENOMEM;
	} else if (page_zone(page) != zone) {
		strays++;
	} else if (change) {
		(*needed)++;
		*max = max_t(long, *max, -change);
	}
	return page;
}

static void put(struct page *page, unsigned int ord)
{
	bool ours = page_zone(page) == zone;

	__free_pages(page, ord);
	if (change_by(ours ? 1L << ord : 0) && ours)
		frees[round]++;
}

/* The block with number i and its single pages. */
static bool get_block(unsigned int i)
{
	struct page **p = pages + i * (1 + singles);
	unsigned int j;

	p[0] = get(order, &allocs[round], &refill_max[round]);
	for (j = 1; p[j - 1] && j <= singles; j++)
		p[j] = get(0, &single_allocs[round], &single_refill_max[round]);
	return p[j - 1];
}

static void put_block(unsigned int i)
{
	struct page **p = pages + i * (1 + singles);
	unsigned int j;

	for (j = 0; j <= singles && p[j]; j++) {
		put(p[j], j ? 0 : order);
		p[j] = NULL;
	}
}

/* Frees in a row: whatever went on before, refills start small again. */
static void settle(void)
{
	struct page *page;
	int i;

	for (i = 0; i < 8; i++) {
		page = alloc_pages(GFP_NOWAIT | __GFP_NOWARN, 0);
		if (page)
			__free_pages(page, 0);
	}
}

static int get_all(void *unused)
{
	unsigned int i;

	settle();
	start();
	for (i = 0; i < blocks && get_block(i); i++)
		;
	return error;
}

static int put_all(void *unused)
{
	unsigned int i;

	start();
	for (i = 0; i < blocks; i++)
		put_block(i);
	return 0;
}

/* Free pages of the zone and those on this CPU's list. */
static long balance(void)
{
	return zone_page_state_snapshot(zone, NR_FREE_PAGES) +
	       per_cpu_ptr(zone->per_cpu_pageset, smp_processor_id())->count;
}

static int burst(void *unused)
{
	long before = balance();

	get_all(NULL);
	put_all(NULL);
	free_lost += before - balance();
	return error;
}

static int pairs(void *unused)
{
	long before = balance();
	unsigned int i;

	start();
	for (i = 0; i < blocks && !error; i++) {
		get_block(0);
		put_block(0);
	}
	free_lost += before - balance();
	return error;
}

/* Count what the lists of cpu really hold. */
static int look(void *unused)
{
	struct per_cpu_pages *pcp = per_cpu_ptr(zone->per_cpu_pageset, cpu);
	struct list_head *pos;
	int i, ord;

	count = pcp->count;
	listed = 0;
	for (i = 0; i < NR_PCP_LISTS; i++) {
		ord = i < NR_LOWORDER_PCP_LISTS ? i / MIGRATE_PCPTYPES : PMD_SHIFT - PAGE_SHIFT;
		list_for_each(pos, &pcp->lists[i])
			listed += 1L << ord;
	}
	return 0;
}

static int one_round(void)
{
	int err;

	if (!strcmp(mode, "look"))
		return 0;

	if (!strcmp(mode, "burst"))
		return stop_machine(burst, NULL, cpumask_of(cpu));
	if (!strcmp(mode, "pairs"))
		return stop_machine(pairs, NULL, cpumask_of(cpu));
	if (!strcmp(mode, "apart")) {
		err = stop_machine(get_all, NULL, cpumask_of(cpu));
		stop_machine(put_all, NULL, cpumask_of(cpu2));
		return err;
	}
	return -EINVAL;
}

/* All pages must come from one zone: that of the first. */
static int find_zone(void)
{
	struct page *page;

	page = alloc_pages_node(cpu_to_node(cpu), GFP_KERNEL | (dma ? GFP_DMA : 0), order);
	if (!page)
		return -ENOMEM;
	zone = page_zone(page);
	node = zone_to_nid(zone);
	zone_name = (char *)zone->name;
	__free_pages(page, order);
	return 0;
}

static int __init test_pcp_order1_init(void)
{
	unsigned int i;
	int err;

	/* There, the allocator must not be called with interrupts off. */
	if (IS_ENABLED(CONFIG_PREEMPT_RT))
		return -EOPNOTSUPP;
	if (!blocks || !rounds || order > 3)
		return -EINVAL;
	if (!strcmp(mode, "look") && cpu < nr_cpu_ids && cpu_possible(cpu))
		blocks = 1;
	else if (cpu >= nr_cpu_ids || !cpu_online(cpu) || cpu2 >= nr_cpu_ids || !cpu_online(cpu2))
		return -ENODEV;
	err = find_zone();
	if (err)
		return err;
	pages = vzalloc(array3_size(blocks, size_add(1, singles), sizeof(*pages)));
	if (!pages)
		return -ENOMEM;
	for (i = 0; i < rounds && !err; i++) {
		round = min(i, MAX_ROUNDS - 1U);
		err = one_round();
		cond_resched();
	}
	nr_results = round + 1;
	stop_machine(look, NULL, NULL);
	vfree(pages);
	return err;
}

static void __exit test_pcp_order1_exit(void)
{
}

module_init(test_pcp_order1_init);
module_exit(test_pcp_order1_exit);
MODULE_DESCRIPTION("Count what reaches the buddy lists past the per-CPU page lists");
MODULE_LICENSE("GPL");
MODULE_INFO(test, "Y");
