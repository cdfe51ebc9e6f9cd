/* Prints a checksum of what each kernel of this processor computes from the same numbers; test_arm_kernels.py. */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t sum;
static uint32_t state;

static void add(const void *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) sum = (sum ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
}

static float number(void) {
    state = state * 1664525u + 1013904223u;
    return (float)(int32_t)state / 1073741824.0f;
}

/* A layer as model.c packs it, [outputs][inputs]; `rows` gets the form of Kernel.product_listed. */
static Linear layer(const Kernel *k, int inputs, int outputs, int8_t *rows) {
    Linear linear = {inputs, outputs, INT8, allocate_aligned((size_t)inputs * outputs), allocate_aligned(outputs * 4),
                     allocate_aligned(outputs * 4)};
    int stride = ROUND_UP(inputs, 64);
    memset(rows, 0, (size_t)outputs * stride);
    for (int n = 0; n < outputs; n++) {
        linear.scale[n] = number(), linear.bias[n] = number();
        for (int i = 0; i < inputs; i++) {
            int8_t w = (int8_t)((int)(32.0f * number()) + k->weight_offset);
            size_t at = (size_t)(n / LANES) * inputs * LANES + i / k->group * k->group * LANES + n % LANES * k->group;
            ((int8_t *)linear.panels)[at + i % k->group] = w;
            rows[(size_t)n * stride + i] = w;
        }
    }
    return linear;
}

static void compare(const Kernel *k, int inputs, int outputs, int num_rows) {
    static float states[9 * 2048], out[9 * 256], norm[9 * 2048], listed[64];
    static int8_t integers[9 * 2048], weights[256 * 2048];
    static float scale[9];
    static int32_t correction[9];
    static const int wanted[] = {0, 3, 4, 17, 31, 8, 8, 30, 12, 13, 14, 15, 16, 2, 1, 29, 28, 27};
    Rows rows = {integers, scale, correction, (size_t)inputs};
    Linear linear = layer(k, inputs, outputs, weights);
    for (int i = 0; i < num_rows * inputs; i++) states[i] = number();
    k->normalize(states, num_rows, inputs, states, states, 1e-5f, norm);
    k->quantize(norm, num_rows, inputs, &rows);
    add(norm, (size_t)num_rows * inputs * 4);
    add(integers, (size_t)num_rows * inputs);
    for (int epilogue = STORE; epilogue <= ADD; epilogue++) {
        k->product(&rows, num_rows, &linear, 0, outputs / LANES, (Epilogue)epilogue, out, outputs);
        add(out, (size_t)num_rows * outputs * 4);
    }
    k->product_listed(&rows, num_rows - 1, &linear, weights, wanted, 18, listed);
    add(listed, 18 * 4);
    k->activate(GELU, norm, num_rows, inputs);
    add(norm, (size_t)num_rows * inputs * 4);
    free_aligned(linear.panels), free_aligned(linear.scale), free_aligned(linear.bias);
}

int main(void) {
    const Kernel *kernels[8];
    int count = list_kernels(kernels);
    for (int i = 0; i < count; i++) {
        sum = 0xcbf29ce484222325u, state = 1;
        for (int rows = 1; rows <= 9; rows++)
            for (int inputs = 64; inputs <= 2048; inputs *= 2)
                for (int outputs = 32; outputs <= 80; outputs += 16) compare(kernels[i], inputs, outputs, rows);
        printf("%s %016llx\n", kernels[i]->name, (unsigned long long)sum);
    }
    return 0;
}
