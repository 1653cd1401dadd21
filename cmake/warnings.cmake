# Warnings are errors in this project's own code; a project that uses the headers chooses its own.
function(daxcache_warnings target)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wold-style-cast -Wnon-virtual-dtor -Werror
    # Part of clang's -Wconversion, but not of GCC's for C++: both compilers are to say the same.
    -Wno-sign-conversion
    # GCC 12 sees overlaps in std::string that are not there (gcc.gnu.org/PR105329).
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
endfunction()
