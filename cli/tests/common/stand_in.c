// Stands in for a Capulet library: what it interposes can be seen by the caller, and asks the MPI library behind it.
int PMPI_Get_version(int *version, int *subversion);

int MPI_Get_version(int *version, int *subversion) {
    int code = PMPI_Get_version(version, subversion);
    *subversion += 1000;
    return code;
}
