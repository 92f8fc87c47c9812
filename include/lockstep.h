// The C interface of training step by step (lockstep::TrainingLoop), for programs in C, Fortran, Python
// and other languages that call C. Link liblockstep.so; see docs/howto/embed.md. C99 and C++.
//
// Example:
//   int train(int argc, char** argv, const lockstep_array* example, const lockstep_array* batch) {
//     lockstep_loop* loop = NULL;
//     int status = lockstep_create(argc, argv, example, 2, &loop);
//     while (status == LOCKSTEP_OK && !lockstep_is_done(loop))
//       status = lockstep_step(loop, batch, 2);
//     if (status == LOCKSTEP_OK) status = lockstep_finish(loop);
//     if (status != LOCKSTEP_OK) fprintf(stderr, "my_program: error: %s\n", lockstep_last_error());
//     lockstep_destroy(loop);
//     return status;
//   }
//
// Errors: a function that can fail returns a lockstep_status, and lockstep_last_error() has the message.
// No C++ exception leaves the library. A call whose arguments are refused (NULL, type, number of
// dimensions) changes nothing; after any other failure the run is recorded as failed, the loop has
// ended, and later calls return the same error.
//
// Collective: lockstep_create, lockstep_step, lockstep_evaluate, lockstep_save and lockstep_finish. Each
// rank is a process that calls them in the same order. The other functions concern one process.
//
// Threads: a loop is used by one thread at a time, not always the same one. It trains in a separate
// thread; while a function runs, the caller waits for it. A process has one loop at a time.
//
// Memory: what the caller passes is copied or read during the call, and remains the caller's. Texts that
// are returned belong to the library and live as described at each function.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Incremented when a function or struct changes incompatibly; new functions do not increment it.
#define LOCKSTEP_ABI_VERSION 1

// LOCKSTEP_ABI_VERSION of the library that is loaded. A program compares it with its own.
int lockstep_abi_version(void);
// Version of Lockstep, such as "0.1.0". Static.
const char* lockstep_version(void);

// The values are exit codes of sysexits.h, as those of all programs of Lockstep.
enum lockstep_status {
  LOCKSTEP_OK = 0,
  LOCKSTEP_BUG = 70,          // an invariant is violated: report it
  LOCKSTEP_ENVIRONMENT = 75,  // a peer, disk, device or server failed: a restart may help
  LOCKSTEP_CONFIG = 78        // the input is invalid: fix it; a restart fails again
};

// One line about the last call of this thread that returns a status: what failed, where, and what is
// valid. Empty if it succeeded. Valid until the next such call, or lockstep_loss(), of this thread.
const char* lockstep_last_error(void);

// Element types.
enum lockstep_dtype {
  LOCKSTEP_FLOAT32 = 1,
  LOCKSTEP_FLOAT64 = 2,
  LOCKSTEP_FLOAT16 = 3,
  LOCKSTEP_BFLOAT16 = 4,
  LOCKSTEP_INT64 = 5,
  LOCKSTEP_INT32 = 6,
  LOCKSTEP_INT16 = 7,
  LOCKSTEP_INT8 = 8,
  LOCKSTEP_UINT8 = 9,
  LOCKSTEP_BOOL = 10  // one byte, 0 or 1
};

// A field of a batch: the values of all its samples.
typedef struct lockstep_array {
  const char* name;  // such as "image"; NULL in a step: that of the example at the same position
  const void* data;  // in CPU memory, row-major (C order), without gaps
  const int64_t* shape;  // num_dims sizes; the first one is the number of samples
  int32_t num_dims;      // 1 to 16
  int32_t dtype;         // a lockstep_dtype
} lockstep_array;

// A run in progress.
typedef struct lockstep_loop lockstep_loop;

// The rank of this process and the number of ranks, from the environment variables of the launcher
// (`lockstep launch`, torchrun, Slurm, mpirun); 0 and 1 without one. Either pointer may be NULL.
int lockstep_ranks(int* rank, int* world_size);

// Starts or resumes a run; collective. `argv`: what follows lockstep-trainer,
//   {PROGRAM, RUN_FILE, [a.b=value ...], [--resume RUN_ID], [--handle-signals]}
// where data.train of the run file is the dataset `program`. --handle-signals: SIGTERM, SIGINT and
// SIGUSR1 end the loop after a step, with a checkpoint. `example`: a batch of any size, each field with
// its name, to verify the model before the ranks connect. Sets *loop, to NULL on failure.
int lockstep_create(int argc, char* const* argv, const lockstep_array* example, size_t num_fields,
                    lockstep_loop** loop);
// Frees the loop; NULL is allowed. If lockstep_finish() was not called, the run is recorded as failed.
void lockstep_destroy(lockstep_loop* loop);

// 1 if the last step is done, or a stop was requested (`lockstep runs stop`, early stopping, a signal), or
// training failed, or `loop` is NULL; otherwise 0.
int lockstep_is_done(const lockstep_loop* loop);
// Steps done so far, including those before a resume; steps of the whole run. -1 if `loop` is NULL.
int64_t lockstep_steps(const lockstep_loop* loop);
int64_t lockstep_total_steps(const lockstep_loop* loop);
// This rank's loss of the last step, before it updated the weights; with train.accumulate, of the last of its
// passes. Waits for the device. NaN before the first step of this process, and on failure, with
// lockstep_last_error().
double lockstep_loss(const lockstep_loop* loop);

// Trains one step, followed by what is due after it (metrics, evaluation, checkpoint); collective.
// `fields`: this rank's share of data.batch_size, times train.accumulate, with the types and numbers of
// dimensions of the example.
int lockstep_step(lockstep_loop* loop, const lockstep_array* fields, size_t num_fields);

// Evaluates on data.eval now; collective. lockstep_metric() has the result, unless a stop request interrupted
// the evaluation.
int lockstep_evaluate(lockstep_loop* loop);
// Saves a checkpoint now; collective. LOCKSTEP_CONFIG before the first step.
int lockstep_save(lockstep_loop* loop);
// Ends the run, if it is not done: stopped early, with a checkpoint; collective. Call it once, last.
int lockstep_finish(lockstep_loop* loop);

// *value: a metric, such as "accuracy", of the last lockstep_evaluate(), or after lockstep_finish() of the
// last evaluation of the run; the same on all ranks. LOCKSTEP_CONFIG, listing the names, if there is none.
int lockstep_metric(const lockstep_loop* loop, const char* name, double* value);
// The name of metric `index` of those, in alphabetical order; NULL if there are fewer. Valid until the
// next evaluation.
const char* lockstep_metric_name(const lockstep_loop* loop, size_t index);

// Known after lockstep_finish(), empty before; valid until lockstep_destroy(). The id of the run, its
// directory, and one line about why training stopped before its last step (else empty).
const char* lockstep_run_id(const lockstep_loop* loop);
const char* lockstep_run_dir(const lockstep_loop* loop);
const char* lockstep_stop_reason(const lockstep_loop* loop);
// The signal that ended the loop (--handle-signals), known after lockstep_finish(): the program exits with
// 128 + it. 0 if there is none.
int lockstep_stop_signal(const lockstep_loop* loop);

#ifdef __cplusplus
}
#endif
