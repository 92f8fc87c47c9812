! c_loop.c in Fortran, without signals: fortran_loop SAMPLES train CONFIG [a.b=value ...]
program fortran_loop
  use, intrinsic :: iso_fortran_env, only: error_unit
  use lockstep
  implicit none

  integer, parameter :: samples = 64, inputs = 3, per_step = 8
  real(c_float), target :: image(inputs, samples), step_image(inputs, per_step)
  integer(c_int64_t), target :: label(samples), step_label(per_step)
  character(kind=c_char, len=6), target :: names(2) = ["image" // c_null_char, "label" // c_null_char]
  integer(c_int64_t), target :: one(2) = [1, inputs]
  type(c_ptr) :: loop
  integer(c_int) :: rank, ranks, status
  integer :: file
  character(4096) :: path

  call get_command_argument(1, path)
  open (newunit=file, file=trim(path), access="stream", form="unformatted", action="read", status="old")
  read (file) image, label
  close (file)
  loop = c_null_ptr
  status = LOCKSTEP_BUG
  if (lockstep_abi_version() == LOCKSTEP_ABI) status = lockstep_ranks(rank, ranks)
  if (status == LOCKSTEP_OK) status = lockstep_create_from_command(2, [ &
    lockstep_array(c_loc(names(1)), c_loc(image), c_loc(one), 2, LOCKSTEP_FLOAT32), &
    lockstep_array(c_loc(names(2)), c_loc(label), c_loc(one), 1, LOCKSTEP_INT64)], loop)
  if (status == LOCKSTEP_OK) status = train()
  if (status /= LOCKSTEP_OK) write (error_unit, "(2a)") "fortran_loop: error: ", lockstep_text(lockstep_last_error())
  call lockstep_destroy(loop)
  if (status /= LOCKSTEP_OK) stop status, quiet=.true.

contains

  integer(c_int) function train() result(status)
    real(c_double) :: accuracy

    status = LOCKSTEP_OK
    accuracy = -1
    do while (status == LOCKSTEP_OK .and. lockstep_is_done(loop) == 0)
      status = train_step()
      if (status == LOCKSTEP_OK .and. lockstep_steps(loop) == 3) then
        status = lockstep_evaluate(loop)
        if (status == LOCKSTEP_OK) status = lockstep_metric(loop, "accuracy" // c_null_char, accuracy)
        if (status == LOCKSTEP_OK) status = lockstep_save(loop)
      end if
    end do
    if (status == LOCKSTEP_OK) status = lockstep_finish(loop)
    if (status == LOCKSTEP_OK .and. rank == 0) print "(a, i0, a, f6.4, 2a)", "steps ", lockstep_steps(loop), " accuracy ", &
      accuracy, " run ", lockstep_text(lockstep_run_id(loop))
  end function

  ! The share of this rank, without names.
  integer(c_int) function train_step() result(status)
    integer(c_int64_t), target :: shape(2)
    integer(c_int64_t) :: first, last
    integer :: count

    count = per_step / ranks
    first = lockstep_steps(loop) * per_step + rank + 1
    last = first + (count - 1) * ranks
    step_image(:, :count) = image(:, first:last:ranks)
    step_label(:count) = label(first:last:ranks)
    shape = [count, inputs]
    status = lockstep_step(loop, [lockstep_array(data=c_loc(step_image), shape=c_loc(shape), num_dims=2, dtype=LOCKSTEP_FLOAT32), &
      lockstep_array(data=c_loc(step_label), shape=c_loc(shape), num_dims=1, dtype=LOCKSTEP_INT64)], 2_c_size_t)
  end function
end program
