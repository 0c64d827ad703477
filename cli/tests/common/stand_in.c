// Stand-in for a Capulet library. It interposes a function in a way that the caller can see, and asks the
// MPI library behind it.
int PMPI_Get_version(int *version, int *subversion);

int MPI_Get_version(int *version, int *subversion) {
    int code = PMPI_Get_version(version, subversion);
    *subversion += 1000;
    return code;
}
