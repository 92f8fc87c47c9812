/* c_loop SAMPLES signal|train CONFIG [a.b=value ...]: trains on the samples through the C interface, eight per step of all ranks, in
   their order. SAMPLES: the values of "image", float32 [64, 3], then of "label", int64 [64]. */
#include <lockstep.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { SAMPLES = 64, INPUTS = 3, PER_STEP = 8 };

static float image[SAMPLES][INPUTS], step_image[PER_STEP][INPUTS];
static int64_t label[SAMPLES], step_label[PER_STEP];

static int read_samples(const char* path) {
  FILE* file = fopen(path, "rb");
  int complete = file && fread(image, sizeof image, 1, file) == 1 && fread(label, sizeof label, 1, file) == 1;
  if (file) fclose(file);
  return complete;
}

/* The share of this rank, without names. It is overwritten after the step, which must not matter. */
static int train_step(lockstep_loop* loop, int rank, int ranks) {
  const int64_t count = PER_STEP / ranks, image_shape[] = {count, INPUTS};
  const lockstep_array fields[] = {{NULL, step_image, image_shape, 2, LOCKSTEP_FLOAT32},
                                   {NULL, step_label, image_shape, 1, LOCKSTEP_INT64}};
  int64_t i, from = lockstep_steps(loop) * PER_STEP;
  int status;
  for (i = 0; i < count; ++i) {
    memcpy(step_image[i], image[from + rank + i * ranks], sizeof step_image[i]);
    step_label[i] = label[from + rank + i * ranks];
  }
  status = lockstep_step(loop, fields, 2);
  memset(step_image, 0xff, sizeof step_image);
  memset(step_label, 0xff, sizeof step_label);
  return status;
}

static int train(lockstep_loop* loop, int rank, int ranks, int signals) {
  int status = LOCKSTEP_OK;
  double accuracy = -1;
  if (lockstep_total_steps(loop) != 8 || !isnan(lockstep_loss(loop)) || lockstep_run_dir(loop)[0]) return LOCKSTEP_BUG;
  while (status == LOCKSTEP_OK && !lockstep_is_done(loop)) {
    status = train_step(loop, rank, ranks);
    if (status == LOCKSTEP_OK && !isfinite(lockstep_loss(loop))) return LOCKSTEP_BUG;
    if (status == LOCKSTEP_OK && lockstep_steps(loop) == 3) {
      if (signals) raise(SIGTERM);
      status = lockstep_evaluate(loop);
      if (status == LOCKSTEP_OK) status = lockstep_metric(loop, "accuracy", &accuracy);
      if (status == LOCKSTEP_OK) status = lockstep_save(loop);
    }
  }
  if (status == LOCKSTEP_OK) status = lockstep_finish(loop);
  if (status == LOCKSTEP_OK) status = lockstep_metric(loop, "accuracy", &accuracy);
  if (status == LOCKSTEP_OK && rank == 0)
    printf("steps %d accuracy %.4f run %s: %s\n", (int)lockstep_steps(loop), accuracy, lockstep_run_id(loop), lockstep_stop_reason(loop));
  return status == LOCKSTEP_OK && lockstep_stop_signal(loop) ? 128 + lockstep_stop_signal(loop) : status;
}

int main(int argc, char** argv) {
  const int64_t one[] = {1, INPUTS};
  const lockstep_array example[] = {{"image", image, one, 2, LOCKSTEP_FLOAT32}, {"label", label, one, 1, LOCKSTEP_INT64}};
  lockstep_loop* loop = NULL;
  int rank = 0, ranks = 1, status;
  if (argc < 4 || !read_samples(argv[1])) return 1;
  status = lockstep_abi_version() == LOCKSTEP_ABI_VERSION ? lockstep_ranks(&rank, &ranks) : LOCKSTEP_BUG;
  if (status == LOCKSTEP_OK) status = lockstep_create(argc - 2, argv + 2, example, 2, &loop);
  if (status == LOCKSTEP_OK) status = train(loop, rank, ranks, strcmp(argv[2], "signal") == 0);
  if (lockstep_last_error()[0]) fprintf(stderr, "c_loop: error: %s\n", lockstep_last_error());
  lockstep_destroy(loop);
  return status;
}
