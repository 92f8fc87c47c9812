/* pendulum.cpp in C: a simulation that trains a model while it runs. By hand:
     cc -std=c99 pendulum.c -I PREFIX/include -L PREFIX/lib -llockstep -lm -Wl,-rpath,PREFIX/lib,--allow-shlib-undefined
   On two ranks, each with its own samples:
     lockstep launch -n 2 --program build-embedding/pendulum_c examples/embedding/pendulum.yaml */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <lockstep.h>

enum { BATCH = 32, INPUTS = 3 };

/* A batch: angle, velocity and damping of each pendulum, and whether it goes over the top. */
static float image[BATCH][INPUTS];
static int64_t label[BATCH];

static double uniform(double low, double high) { return low + (high - low) * rand() / RAND_MAX; }

static int goes_over(double angle, double velocity, double damping) {
  const double step = 0.01, top = 3.14159265358979;
  int i;
  for (i = 0; i < 1000; ++i) {
    velocity -= step * (sin(angle) + damping * velocity);
    angle += step * velocity;
    if (fabs(angle) > top) return 1;
  }
  return 0;
}

static void simulate(void) {
  int i;
  for (i = 0; i < BATCH; ++i) {
    const double angle = uniform(-2, 2), velocity = uniform(-4, 4), damping = uniform(0, 0.5);
    image[i][0] = (float)angle;
    image[i][1] = (float)velocity;
    image[i][2] = (float)damping;
    label[i] = goes_over(angle, velocity, damping);
  }
}

int main(int argc, char** argv) {
  static const int64_t image_shape[] = {BATCH, INPUTS}, label_shape[] = {BATCH};
  const lockstep_array batch[] = {{"image", image, image_shape, 2, LOCKSTEP_FLOAT32},
                                  {"label", label, label_shape, 1, LOCKSTEP_INT64}};
  lockstep_loop* loop = NULL;
  int rank = 0;
  int status = lockstep_ranks(&rank, NULL);
  srand(1 + (unsigned)rank);
  simulate();
  if (status == LOCKSTEP_OK) status = lockstep_create(argc, argv, batch, 2, &loop);
  while (status == LOCKSTEP_OK && !lockstep_is_done(loop)) {
    simulate();
    status = lockstep_step(loop, batch, 2);
  }
  if (status == LOCKSTEP_OK) status = lockstep_finish(loop);
  if (status != LOCKSTEP_OK)
    fprintf(stderr, "pendulum: error: %s\n", lockstep_last_error());
  else if (rank == 0)
    printf("step %ld, loss %.3f, run directory %s\n", (long)lockstep_steps(loop),
           lockstep_loss(loop), lockstep_run_dir(loop));
  lockstep_destroy(loop);
  return status;
}
