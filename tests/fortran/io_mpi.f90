! Files through the module `mpi`: handles are integers.
program io_mpi
    use mpi
    implicit none
    integer, parameter :: rows = 7, columns = 5
    integer :: fh, vector, filetype, handler, status(MPI_STATUS_SIZE)
    integer :: handler_file = -1
    integer :: ierr, ierr2, rank, ranks, count, class, i, column, all_failures
    integer :: handler_calls = 0, handler_code = 0, checks = 0, failures = 0
    integer(MPI_OFFSET_KIND) :: displacement, offset
    integer(MPI_ADDRESS_KIND) :: lower, extent
    double precision :: mine(rows * columns), back(rows * columns), one_column(rows), expected
    character(len=4096) :: folder, path
    include 'body.inc'
contains
    subroutine expect(fine, what)
        logical, intent(in) :: fine
        character(len=*), intent(in) :: what
        checks = checks + 1
        if (fine) return
        failures = failures + 1
        print '(a, i0, 2a)', 'FAILED [rank ', rank, ']: ', what
    end subroutine

    subroutine note(file, code)
        integer :: file, code
        handler_calls = handler_calls + 1
        handler_file = file
        handler_code = code
    end subroutine
end program
