// SPDX-License-Identifier: GPL-2.0
/*
 * sizes - of the structs that a series may change, as the sizes of symbols:
 * scripts/build reads them with nm and keeps them in the file "sizes" of a build.
 * Compiled as a module because the kernel's configuration decides; never loaded.
 */
#include <linux/mmzone.h>
#include <linux/module.h>
#include <linux/sched.h>

#define SIZE(type)	char size_of_##type[sizeof(struct type)]

SIZE(task_struct);
SIZE(sched_entity);
SIZE(sched_statistics);
SIZE(per_cpu_pages);

MODULE_DESCRIPTION("Sizes of structs, for nm");
MODULE_LICENSE("GPL");
