// SPDX-License-Identifier: GPL-2.0
/*
 * sched_fields - where the fields of the loader's sched_entities are
 *
 * Writes to the kernel log, for scripts/fields: a line "field NAME OFFSET SIZE"
 * for each field of struct sched_entity (bytes), then "entity ADDRESS" (hex) for
 * each task that has the name of the task that loads the module, and for each
 * group's entity above it on that task's CPU. One of a group comes once a task.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#define FIELD(f)	pr_info("field %s %zu %zu\n", #f, offsetof(struct sched_entity, f), \
				sizeof_field(struct sched_entity, f))

static int __init sched_fields_init(void)
{
	struct task_struct *p, *t;
	struct sched_entity *se;

	FIELD(run_node);
	FIELD(deadline);
	FIELD(vruntime);
	FIELD(min_vruntime);
	FIELD(slice);
	FIELD(min_slice);
	FIELD(max_slice);
	FIELD(load);
	FIELD(on_rq);
	FIELD(sched_delayed);
	FIELD(rel_deadline);
	FIELD(custom_slice);
	FIELD(exec_start);
	FIELD(sum_exec_runtime);
	FIELD(h_load);
	FIELD(group_node);
	FIELD(prev_sum_exec_runtime);
	FIELD(vlag);
	FIELD(vprot);
#ifdef CONFIG_FAIR_GROUP_SCHED
	FIELD(depth);
	FIELD(parent);
	FIELD(cfs_rq);
	FIELD(my_q);
	FIELD(runnable_weight);
#endif
	FIELD(avg);
	rcu_read_lock();
	for_each_process_thread(p, t) {
		if (strcmp(t->comm, current->comm))
			continue;
		for (se = &t->se; se; ) {
			pr_info("entity %px\n", se);
#ifdef CONFIG_FAIR_GROUP_SCHED
			se = se->parent;
#else
			se = NULL;
#endif
		}
	}
	rcu_read_unlock();
	return 0;
}

static void __exit sched_fields_exit(void)
{
}

module_init(sched_fields_init);
module_exit(sched_fields_exit);
MODULE_DESCRIPTION("Tell where the fields of the loader's sched_entities are");
MODULE_LICENSE("GPL");
