! The module mpi_f08: open, views, collective access and error handlers. A hint shows that Capulet is in use.
module handlers
  use mpi_f08
  implicit none
  integer :: called = 0, last_file = -1, last_code = -1
  integer :: left_code = -1 ! What the handler leaves in its code, if it is not negative.
contains
  subroutine note(file, code)
    type(MPI_File) :: file
    integer :: code
    called = called + 1
    last_file = file%MPI_VAL
    last_code = code
    if (left_code >= 0) code = left_code
  end subroutine note
end module handlers

program use_mpi_f08
  use mpi_f08
  use handlers
  implicit none
  type(MPI_File) :: file
  type(MPI_Info) :: info
  type(MPI_Status) :: status
  type(MPI_Datatype) :: filetype
  type(MPI_Errhandler) :: errhandler, got
  type(MPI_Group) :: group
  type(MPI_Request) :: request, requests(2)
  type(MPI_Status) :: statuses(2)
  integer :: rank, ranks, code, class, i, items, failures, all_failures
  integer :: out(100), in(100)
  integer(kind=MPI_OFFSET_KIND) :: bytes
  integer(kind=MPI_ADDRESS_KIND) :: extent
  logical :: found
  character(len=200) :: name
  character(len=MPI_MAX_INFO_VAL) :: text
  character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: version
  logical :: has_statuses
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call get_command_argument(1, name)
  failures = 0

  call MPI_File_open(MPI_COMM_WORLD, trim(name), MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, file, code)
  call check(code == MPI_SUCCESS, 'open')
  call MPI_File_get_info(file, info)
  text = ''
  call MPI_Info_get(info, 'romio_filesystem_type', MPI_MAX_INFO_VAL, text, found)
  call check(found .and. text(1:7) == 'CAPULET', 'Capulet is in use')
  call MPI_Info_free(info)
  call MPI_File_get_group(file, group)
  call MPI_Group_size(group, items)
  call check(items == ranks, 'group')
  call MPI_Group_free(group)

  extent = 4 * ranks
  call MPI_Type_create_resized(MPI_INTEGER, 0_MPI_ADDRESS_KIND, extent, filetype)
  call MPI_Type_commit(filetype)
  bytes = 4 * rank
  call MPI_File_set_view(file, bytes, MPI_INTEGER, filetype, 'native', MPI_INFO_NULL, code)
  call check(code == MPI_SUCCESS, 'set_view')
  out = [(1000 * rank + i, i = 1, 100)]
  call MPI_File_write_all(file, out, 100, MPI_INTEGER, status, code)
  call check(code == MPI_SUCCESS, 'write_all')
  call MPI_Get_count(status, MPI_INTEGER, items)
  call check(items == 100, 'count')
  call MPI_File_read_at_all(file, 0_MPI_OFFSET_KIND, in, 100, MPI_INTEGER, MPI_STATUS_IGNORE, code)
  call check(code == MPI_SUCCESS .and. all(in == out), 'read_at_all')
  call MPI_Type_free(filetype)

  call MPI_File_create_errhandler(note, errhandler, code)
  call check(code == MPI_SUCCESS, 'create_errhandler')
  call MPI_File_set_errhandler(file, errhandler, code)
  call check(code == MPI_SUCCESS, 'set_errhandler')
  call MPI_File_get_errhandler(file, got)
  call check(got == errhandler, 'get_errhandler')
  call MPI_Errhandler_free(got)
  call MPI_Errhandler_free(errhandler)
  call MPI_File_seek(file, -1_MPI_OFFSET_KIND, MPI_SEEK_SET, code)
  call MPI_Error_class(code, class)
  call check(class == MPI_ERR_ARG, 'class')
  call check(called == 1 .and. last_file == file%MPI_VAL .and. last_code == code, 'handler')
  left_code = MPI_ERR_OTHER
  call MPI_File_seek(file, -1_MPI_OFFSET_KIND, MPI_SEEK_SET, code)
  call check(called == 2 .and. code == MPI_ERR_OTHER, 'the code that the handler leaves')
  left_code = -1

  ! An error of nonblocking access goes to the error handler of the file. The error handler of a communicator
  ! would abort. The Fortran library of Open MPI sets neither the status nor the request if a call fails.
  call MPI_Get_library_version(version, items)
  has_statuses = index(version, 'Open MPI') == 0
  call MPI_File_iwrite_at_all(file, -1_MPI_OFFSET_KIND, out, 1, MPI_INTEGER, request, code)
  call check(code == MPI_SUCCESS, 'iwrite_at_all')
  call MPI_Wait(request, status, code)
  call MPI_Error_class(code, class)
  call check(class == MPI_ERR_ARG .and. called == 3 .and. last_file == file%MPI_VAL, 'MPI_Wait')
  call check(status%MPI_ERROR == code .or. .not. has_statuses, 'the error in the status')
  call MPI_File_iwrite_at_all(file, -1_MPI_OFFSET_KIND, out, 1, MPI_INTEGER, requests(1), code)
  requests(2) = MPI_REQUEST_NULL
  call MPI_Waitall(2, requests, statuses, code)
  call check(code == MPI_ERR_IN_STATUS .and. called == 4, 'MPI_Waitall')
  if (has_statuses) then
    call MPI_Error_class(statuses(1)%MPI_ERROR, class)
    call check(class == MPI_ERR_ARG .and. statuses(2)%MPI_ERROR == MPI_SUCCESS, 'the errors in the statuses')
  end if
  call MPI_File_iwrite_at_all(file, -1_MPI_OFFSET_KIND, out, 1, MPI_INTEGER, request, code)
  found = .false.
  do while (.not. found .and. code == MPI_SUCCESS)
    call MPI_Test(request, found, MPI_STATUS_IGNORE, code)
  end do
  call check(code /= MPI_SUCCESS .and. called == 5, 'MPI_Test')
  call check(request == MPI_REQUEST_NULL .or. .not. has_statuses, 'the request after MPI_Test')

  call MPI_File_close(file, code)
  call check(code == MPI_SUCCESS .and. file == MPI_FILE_NULL, 'close')

  call MPI_Allreduce(failures, all_failures, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (rank == 0 .and. all_failures == 0) print '(a)', 'all checks passed'
  call MPI_Finalize()
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
end program use_mpi_f08
