// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tell where the running kernel keeps the fields of struct sched_entity, and
 * where the entities of the task that loads the module lie: in its task_struct
 * and, for each level of its cgroups, on this CPU.
 *
 * Read /sys/module/sched_entity_probe/parameters/layout: lines "NAME OFFSET
 * SIZE"; "line" and "sizeof" have one number; "entity" lines are the addresses
 * modulo the page size, the task's first.
 */
#include <linux/cache.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched.h>

struct field {
	const char *name;
	size_t offset;
	size_t size;
};

#define FIELD(f) { #f, offsetof(struct sched_entity, f), sizeof_field(struct sched_entity, f) }

static const struct field fields[] = {
	FIELD(run_node),
	FIELD(deadline),
	FIELD(vruntime),
	FIELD(min_vruntime),
	FIELD(slice),
	FIELD(min_slice),
	FIELD(max_slice),
	FIELD(load),
	FIELD(on_rq),
	FIELD(sched_delayed),
	FIELD(rel_deadline),
	FIELD(custom_slice),
#ifdef CONFIG_FAIR_GROUP_SCHED
	FIELD(depth),
	FIELD(parent),
	FIELD(cfs_rq),
	FIELD(my_q),
	FIELD(runnable_weight),
#endif
	FIELD(exec_start),
	FIELD(sum_exec_runtime),
	FIELD(h_load),
	FIELD(group_node),
	FIELD(prev_sum_exec_runtime),
	FIELD(vlag),
	FIELD(vprot),
	FIELD(avg),
};

static unsigned long entities[16];
static unsigned int nr_entities;

static int layout_get(char *buf, const struct kernel_param *kp)
{
	int n = 0;

	n += sysfs_emit_at(buf, n, "line %d\n", L1_CACHE_BYTES);
	n += sysfs_emit_at(buf, n, "sizeof %zu\n", sizeof(struct sched_entity));
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
		n += sysfs_emit_at(buf, n, "%s %zu %zu\n", fields[i].name,
				   fields[i].offset, fields[i].size);
	for (unsigned int i = 0; i < nr_entities; i++)
		n += sysfs_emit_at(buf, n, "entity %lu\n", entities[i]);
	return n;
}

static const struct kernel_param_ops layout_ops = { .get = layout_get };
module_param_cb(layout, &layout_ops, NULL, 0444);
MODULE_PARM_DESC(layout, "fields of struct sched_entity and entities of the loading task (read only)");

static int __init sched_entity_probe_init(void)
{
	struct sched_entity *se = &current->se;

	/* A task that changes its group or CPU takes the scheduler's locks. */
	preempt_disable();
	while (se && nr_entities < ARRAY_SIZE(entities)) {
		entities[nr_entities++] = offset_in_page(se);
#ifdef CONFIG_FAIR_GROUP_SCHED
		se = se->parent;
#else
		se = NULL;
#endif
	}
	preempt_enable();
	return 0;
}

static void __exit sched_entity_probe_exit(void)
{
}

module_init(sched_entity_probe_init);
module_exit(sched_entity_probe_exit);
MODULE_DESCRIPTION("Tell the layout of struct sched_entity");
MODULE_LICENSE("GPL");
MODULE_INFO(test, "Y");
