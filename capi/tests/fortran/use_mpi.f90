! The module mpi: open, views, collective access and error handlers. A hint shows that Capulet is in use.
module handlers
  implicit none
  integer :: called = 0, last_file = -1, last_code = -1
  integer :: left_code = -1 ! What the handler leaves in its code, if it is not negative.
contains
  subroutine note(file, code)
    integer :: file, code
    called = called + 1
    last_file = file
    last_code = code
    if (left_code >= 0) code = left_code
  end subroutine note
end module handlers

program use_mpi
  use mpi
  use handlers
  implicit none
  integer :: rank, ranks, code, class, file, errhandler, got, info, mode, filetype, i, failures, all_failures
  integer :: status(MPI_STATUS_SIZE), items, request, requests(2), statuses(MPI_STATUS_SIZE, 2)
  integer :: out(100), in(100)
  integer(kind=MPI_OFFSET_KIND) :: bytes, zero
  integer(kind=MPI_ADDRESS_KIND) :: lower, extent
  logical :: found, atomic
  character(len=200) :: name
  character(len=MPI_MAX_INFO_VAL) :: text
  character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: version
  logical :: has_statuses
  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
  call get_command_argument(1, name)
  failures = 0
  zero = 0

  call MPI_File_open(MPI_COMM_WORLD, trim(name), MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, file, code)
  call check(code == MPI_SUCCESS, 'open')
  call MPI_File_get_info(file, info, code)
  text = ''
  call MPI_Info_get(info, 'romio_filesystem_type', MPI_MAX_INFO_VAL, text, found, code)
  call check(found .and. text(1:7) == 'CAPULET', 'Capulet is in use')
  call MPI_Info_free(info, code)
  call MPI_File_get_amode(file, mode, code)
  call check(mode == MPI_MODE_CREATE + MPI_MODE_RDWR, 'mode')

  lower = 0
  extent = 4 * ranks
  call MPI_Type_create_resized(MPI_INTEGER, lower, extent, filetype, code)
  call MPI_Type_commit(filetype, code)
  bytes = 4 * rank
  call MPI_File_set_view(file, bytes, MPI_INTEGER, filetype, 'native', MPI_INFO_NULL, code)
  call check(code == MPI_SUCCESS, 'set_view')
  out = [(1000 * rank + i, i = 1, 100)]
  call MPI_File_write_all(file, out, 100, MPI_INTEGER, status, code)
  call check(code == MPI_SUCCESS, 'write_all')
  call MPI_Get_count(status, MPI_INTEGER, items, code)
  call check(items == 100, 'count')
  call MPI_File_read_at_all(file, zero, in, 100, MPI_INTEGER, MPI_STATUS_IGNORE, code)
  call check(code == MPI_SUCCESS .and. all(in == out), 'read_at_all')
  call MPI_File_get_size(file, bytes, code)
  call check(bytes == 400 * ranks, 'size')
  call MPI_File_get_atomicity(file, atomic, code)
  call check(.not. atomic, 'atomicity')
  call MPI_Type_free(filetype, code)

  call MPI_File_create_errhandler(note, errhandler, code)
  call check(code == MPI_SUCCESS, 'create_errhandler')
  call MPI_File_set_errhandler(file, errhandler, code)
  call check(code == MPI_SUCCESS, 'set_errhandler')
  call MPI_File_get_errhandler(file, got, code)
  call check(got == errhandler, 'get_errhandler')
  call MPI_Errhandler_free(got, code)
  call MPI_Errhandler_free(errhandler, code)
  bytes = -1
  call MPI_File_seek(file, bytes, MPI_SEEK_SET, code)
  call MPI_Error_class(code, class, i)
  call check(class == MPI_ERR_ARG, 'class')
  call check(called == 1 .and. last_file == file .and. last_code == code, 'handler')
  call MPI_File_call_errhandler(file, MPI_ERR_QUOTA, code)
  call check(called == 2 .and. last_code == MPI_ERR_QUOTA, 'call_errhandler')
  left_code = MPI_ERR_OTHER
  call MPI_File_seek(file, bytes, MPI_SEEK_SET, code)
  call check(called == 3 .and. code == MPI_ERR_OTHER, 'the code that the handler leaves')
  left_code = -1

  ! An error of nonblocking access goes to the error handler of the file. The error handler of a communicator
  ! would abort. The Fortran library of Open MPI sets no status if a call fails.
  call MPI_Get_library_version(version, items, code)
  has_statuses = index(version, 'Open MPI') == 0
  call MPI_File_iwrite_at_all(file, bytes, out, 1, MPI_INTEGER, request, code)
  call check(code == MPI_SUCCESS, 'iwrite_at_all')
  call MPI_Wait(request, status, code)
  call MPI_Error_class(code, class, i)
  call check(class == MPI_ERR_ARG .and. called == 4 .and. last_file == file, 'MPI_Wait')
  call check(status(MPI_ERROR) == code .or. .not. has_statuses, 'the error in the status')
  call MPI_File_iwrite_at_all(file, bytes, out, 1, MPI_INTEGER, requests(1), code)
  requests(2) = MPI_REQUEST_NULL
  call MPI_Waitall(2, requests, statuses, code)
  call check(code == MPI_ERR_IN_STATUS .and. called == 5, 'MPI_Waitall')
  if (has_statuses) then
    call MPI_Error_class(statuses(MPI_ERROR, 1), class, i)
    call check(class == MPI_ERR_ARG .and. statuses(MPI_ERROR, 2) == MPI_SUCCESS, 'the errors in the statuses')
  end if
  call MPI_File_iwrite_at_all(file, bytes, out, 1, MPI_INTEGER, requests(1), code)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, code)
  call check(code == MPI_ERR_IN_STATUS .and. called == 6, 'MPI_Waitall without statuses')

  call MPI_File_close(file, code)
  call check(code == MPI_SUCCESS .and. file == MPI_FILE_NULL, 'close')
  call MPI_File_get_errhandler(MPI_FILE_NULL, got, code)
  call check(got == MPI_ERRORS_RETURN, 'default handler')

  call MPI_Allreduce(failures, all_failures, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, code)
  if (rank == 0 .and. all_failures == 0) print '(a)', 'all checks passed'
  call MPI_Finalize(code)
  if (all_failures /= 0) stop 1
contains
  subroutine check(condition, what)
    logical, intent(in) :: condition
    character(len=*), intent(in) :: what
    if (.not. condition) then
      failures = failures + 1
      write (0, '(a,i0,2a)') 'rank ', rank, ': not true: ', what
    end if
  end subroutine check
end program use_mpi
