! The C interface of Lockstep (lockstep.h, which describes each function) as a Fortran 2018 module. Compile it with your program
! and link liblockstep.so; see docs/howto/embed.md and examples/embedding/pendulum.f90.
!
! Differences to C: a field of a batch with 32 samples of 3 values is an array (3, 32), and its lockstep_array has the shape
! [32, 3], samples first. Texts of the library are type(c_ptr): lockstep_text() copies them. lockstep_create_from_command()
! passes the arguments of the program to lockstep_create().
module lockstep
  use, intrinsic :: iso_c_binding
  implicit none
  public

  integer(c_int), parameter :: LOCKSTEP_ABI = 1 ! LOCKSTEP_ABI_VERSION of lockstep.h

  ! lockstep_status
  integer(c_int), parameter :: LOCKSTEP_OK = 0, LOCKSTEP_BUG = 70, LOCKSTEP_ENVIRONMENT = 75, LOCKSTEP_CONFIG = 78

  ! lockstep_dtype
  integer(c_int32_t), parameter :: LOCKSTEP_FLOAT32 = 1, LOCKSTEP_FLOAT64 = 2, LOCKSTEP_FLOAT16 = 3, LOCKSTEP_BFLOAT16 = 4, &
    LOCKSTEP_INT64 = 5, LOCKSTEP_INT32 = 6, LOCKSTEP_INT16 = 7, LOCKSTEP_INT8 = 8, LOCKSTEP_UINT8 = 9, LOCKSTEP_BOOL = 10

  type, bind(c) :: lockstep_array
    type(c_ptr) :: name = c_null_ptr ! ends with c_null_char
    type(c_ptr) :: data = c_null_ptr
    type(c_ptr) :: shape = c_null_ptr ! of integer(c_int64_t)
    integer(c_int32_t) :: num_dims = 0
    integer(c_int32_t) :: dtype = 0
  end type

  interface
    integer(c_int) function lockstep_abi_version() bind(c)
      import c_int
    end function
    type(c_ptr) function lockstep_version() bind(c)
      import c_ptr
    end function
    type(c_ptr) function lockstep_last_error() bind(c)
      import c_ptr
    end function
    integer(c_int) function lockstep_ranks(rank, world_size) bind(c)
      import c_int
      integer(c_int), intent(out), optional :: rank, world_size
    end function
    integer(c_int) function lockstep_create(argc, argv, example, num_fields, loop) bind(c)
      import c_int, c_ptr, c_size_t, lockstep_array
      integer(c_int), value :: argc
      type(c_ptr), intent(in) :: argv(*)
      type(lockstep_array), intent(in) :: example(*)
      integer(c_size_t), value :: num_fields
      type(c_ptr), intent(out) :: loop
    end function
    subroutine lockstep_destroy(loop) bind(c)
      import c_ptr
      type(c_ptr), value :: loop
    end subroutine
    integer(c_int) function lockstep_is_done(loop) bind(c)
      import c_int, c_ptr
      type(c_ptr), value :: loop
    end function
    integer(c_int64_t) function lockstep_steps(loop) bind(c)
      import c_int64_t, c_ptr
      type(c_ptr), value :: loop
    end function
    integer(c_int64_t) function lockstep_total_steps(loop) bind(c)
      import c_int64_t, c_ptr
      type(c_ptr), value :: loop
    end function
    real(c_double) function lockstep_loss(loop) bind(c)
      import c_double, c_ptr
      type(c_ptr), value :: loop
    end function
    integer(c_int) function lockstep_step(loop, fields, num_fields) bind(c)
      import c_int, c_ptr, c_size_t, lockstep_array
      type(c_ptr), value :: loop
      type(lockstep_array), intent(in) :: fields(*)
      integer(c_size_t), value :: num_fields
    end function
    integer(c_int) function lockstep_evaluate(loop) bind(c)
      import c_int, c_ptr
      type(c_ptr), value :: loop
    end function
    integer(c_int) function lockstep_save(loop) bind(c)
      import c_int, c_ptr
      type(c_ptr), value :: loop
    end function
    integer(c_int) function lockstep_finish(loop) bind(c)
      import c_int, c_ptr
      type(c_ptr), value :: loop
    end function
    integer(c_int) function lockstep_metric(loop, name, value) bind(c)
      import c_char, c_double, c_int, c_ptr
      type(c_ptr), value :: loop
      character(kind=c_char), intent(in) :: name(*) ! ends with c_null_char
      real(c_double), intent(inout) :: value ! unchanged on failure
    end function
    type(c_ptr) function lockstep_metric_name(loop, index) bind(c)
      import c_ptr, c_size_t
      type(c_ptr), value :: loop
      integer(c_size_t), value :: index ! from 0
    end function
    type(c_ptr) function lockstep_run_id(loop) bind(c)
      import c_ptr
      type(c_ptr), value :: loop
    end function
    type(c_ptr) function lockstep_run_dir(loop) bind(c)
      import c_ptr
      type(c_ptr), value :: loop
    end function
    type(c_ptr) function lockstep_stop_reason(loop) bind(c)
      import c_ptr
      type(c_ptr), value :: loop
    end function
    integer(c_int) function lockstep_stop_signal(loop) bind(c)
      import c_int, c_ptr
      type(c_ptr), value :: loop
    end function
  end interface

contains

  ! A copy of a text that the library returns; empty for a null pointer.
  function lockstep_text(text) result(copy)
    type(c_ptr), intent(in) :: text
    character(:), allocatable :: copy
    interface
      integer(c_size_t) function strlen(text) bind(c)
        import c_ptr, c_size_t
        type(c_ptr), value :: text
      end function
    end interface
    character(kind=c_char), pointer :: letters(:)
    integer :: i

    if (.not. c_associated(text)) then
      copy = ""
      return
    end if
    call c_f_pointer(text, letters, [strlen(text)])
    allocate (character(size(letters)) :: copy)
    do i = 1, size(letters)
      copy(i:i) = letters(i)
    end do
  end function

  ! lockstep_create() with the arguments of this program. `program`: which one is PROGRAM, which RUN_FILE follows; usually 0.
  integer(c_int) function lockstep_create_from_command(program, example, loop) result(status)
    integer, intent(in) :: program
    type(lockstep_array), intent(in) :: example(:)
    type(c_ptr), intent(out) :: loop
    integer :: i, count, length, longest

    count = max(0, command_argument_count() - program + 1)
    longest = 0
    do i = 1, count
      call get_command_argument(program + i - 1, length=length)
      longest = max(longest, length)
    end do
    block
      character(longest + 1, c_char), target :: words(count)
      type(c_ptr) :: argv(count)

      do i = 1, count
        call get_command_argument(program + i - 1, words(i), length)
        words(i) (length + 1:) = c_null_char
        argv(i) = c_loc(words(i))
      end do
      status = lockstep_create(int(count, c_int), argv, example, size(example, kind=c_size_t), loop)
    end block
  end function
end module
