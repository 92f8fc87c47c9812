! pendulum.cpp in Fortran: a simulation that trains a model while it runs. By hand:
!   gfortran PREFIX/include/lockstep.f90 pendulum.f90 -L PREFIX/lib -llockstep -Wl,-rpath,PREFIX/lib,--allow-shlib-undefined
! On two ranks, each with its own samples:
!   lockstep launch -n 2 --program build-embedding/pendulum_fortran examples/embedding/pendulum.yaml
program pendulum
  use, intrinsic :: iso_fortran_env, only: error_unit
  use lockstep
  implicit none

  ! A batch: angle, velocity and damping of each pendulum, and whether it goes over the top.
  integer, parameter :: batch_size = 32
  real(c_float), target :: image(3, batch_size)
  integer(c_int64_t), target :: label(batch_size)
  character(kind=c_char, len=6), target :: names(2) = ["image" // c_null_char, "label" // c_null_char]
  integer(c_int64_t), target :: shape(2) = [batch_size, 3]
  type(lockstep_array) :: batch(2)
  type(c_ptr) :: loop
  integer(c_int) :: rank, status

  batch(1) = lockstep_array(c_loc(names(1)), c_loc(image), c_loc(shape), 2, LOCKSTEP_FLOAT32)
  batch(2) = lockstep_array(c_loc(names(2)), c_loc(label), c_loc(shape), 1, LOCKSTEP_INT64)
  loop = c_null_ptr
  rank = 0
  status = lockstep_ranks(rank)
  call seed(1 + rank)
  call simulate()
  if (status == LOCKSTEP_OK) status = lockstep_create_from_command(0, batch, loop)
  do while (status == LOCKSTEP_OK .and. lockstep_is_done(loop) == 0)
    call simulate()
    status = lockstep_step(loop, batch, size(batch, kind=c_size_t))
  end do
  if (status == LOCKSTEP_OK) status = lockstep_finish(loop)
  if (status /= LOCKSTEP_OK) then
    write (error_unit, "(2a)") "pendulum: error: ", lockstep_text(lockstep_last_error())
  else if (rank == 0) then
    print "(a, i0, a, f5.3, 2a)", "step ", lockstep_steps(loop), ", loss ", lockstep_loss(loop), ", run directory ", &
      lockstep_text(lockstep_run_dir(loop))
  end if
  call lockstep_destroy(loop)
  if (status /= LOCKSTEP_OK) stop status, quiet=.true.

contains

  subroutine seed(number)
    integer, intent(in) :: number
    integer :: words

    call random_seed(size=words)
    call random_seed(put=spread(number, 1, words))
  end subroutine

  double precision function uniform(low, high)
    double precision, intent(in) :: low, high

    call random_number(uniform)
    uniform = low + (high - low) * uniform
  end function

  logical function goes_over(start, speed, damping)
    double precision, intent(in) :: start, speed, damping
    double precision, parameter :: step = 0.01d0, top = acos(-1d0)
    double precision :: angle, velocity
    integer :: i

    angle = start
    velocity = speed
    goes_over = .true.
    do i = 1, 1000
      velocity = velocity - step * (sin(angle) + damping * velocity)
      angle = angle + step * velocity
      if (abs(angle) > top) return
    end do
    goes_over = .false.
  end function

  subroutine simulate()
    double precision :: angle, velocity, damping
    integer :: i

    do i = 1, batch_size
      angle = uniform(-2d0, 2d0)
      velocity = uniform(-4d0, 4d0)
      damping = uniform(0d0, 0.5d0)
      image(:, i) = real([angle, velocity, damping], c_float)
      label(i) = merge(1, 0, goes_over(angle, velocity, damping))
    end do
  end subroutine
end program
