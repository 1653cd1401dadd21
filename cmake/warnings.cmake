# Warnings are errors in this project's own code; a project that uses the headers chooses its own.
function(daxcache_warnings target)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wold-style-cast -Wnon-virtual-dtor -Werror)
endfunction()
