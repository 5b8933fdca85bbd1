# How the shared libraries are installed for programs outside this tree.
include(GNUInstallDirs)

# ucudnn_install_library(TARGET NAME DESCRIPTION): libNAME.so with its headers,
# NAME.pc, and the target ucudnn::X of find_package(ucudnn), where NAME is
# ucudnn_X or ucudnn.
function(ucudnn_install_library TARGET NAME DESCRIPTION)
  string(REPLACE "ucudnn_" "" EXPORTED ${NAME})
  set_target_properties(${TARGET} PROPERTIES EXPORT_NAME ${EXPORTED})
  install(TARGETS ${TARGET} EXPORT ucudnn-targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
            NAMELINK_COMPONENT development
    FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
            COMPONENT development)
  # From the .pc file's folder, so that an installation can be moved.
  file(RELATIVE_PATH PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  configure_file(${PROJECT_SOURCE_DIR}/client/library.pc.in ${NAME}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${NAME}.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
endfunction()
