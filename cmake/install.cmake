# Makes the installed library usable through find_package(daxcache) and pkg-config.
include(CMakePackageConfigHelpers)

install(TARGETS daxcache daxcache_traces daxcache_c daxcache_c_static EXPORT daxcacheTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(room libdaxcache policies traces)
  install(DIRECTORY ${room}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endforeach()
# Where an installed daxsim looks for traces.
install(FILES traces/data/kbuild.trace.zst DESTINATION ${CMAKE_INSTALL_DATADIR}/daxcache/traces)
install(EXPORT daxcacheTargets NAMESPACE daxcache:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/daxcache)

configure_package_config_file(cmake/daxcacheConfig.cmake.in daxcacheConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/daxcache)
write_basic_package_version_file(daxcacheConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/daxcacheConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/daxcacheConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/daxcache)

# Relative to where the .pc file lies, so that the installed tree can be moved. daxcache is headers alone;
# daxcache-traces adds the static library and what it needs. libdaxcache is for C: the shared library, which says itself
# what it needs, or with --static the archive.
set(pc_dir /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH DAXCACHE_PC_TO_PREFIX ${pc_dir} /prefix)
foreach(name daxcache daxcache-traces libdaxcache)
  configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
