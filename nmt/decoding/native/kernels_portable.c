/* The kernel in plain C11, for every processor. */
#define KERNEL kernel_portable
#define KERNEL_NAME "portable"
#define ISA_LEVEL 0
#define PRODUCT 0

static int is_supported(void) { return 1; }

#include "kernels.h"
