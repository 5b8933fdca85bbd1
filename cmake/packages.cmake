# Debian packages, made by CPack from what is installed:
#
#   cmake --preset package && cmake --build --preset package
#   cpack --preset package
#
# A package consists of install components. Files that only a package has, such
# as units, are in the component NAME-site, which `cmake --install` leaves out
# unless told, because their places are Debian's.
include(GNUInstallDirs)

set(UCUDNN_PACKAGES ${PROJECT_SOURCE_DIR}/deploy/packages)
set(UCUDNN_UNITS ${PROJECT_SOURCE_DIR}/deploy/systemd)
string(TIMESTAMP UCUDNN_BUILD_DATE "%a, %d %b %Y %H:%M:%S +0000" UTC)

# ucudnn_package_files(NAME DESTINATION folder FILES ... [RENAME name]): files
# that only the package NAME has.
macro(ucudnn_package_files NAME)
  install(${ARGN} COMPONENT ${NAME}-site EXCLUDE_FROM_ALL)
endmacro()

# ucudnn_package(NAME SECTION section SUMMARY line DESCRIPTION text
#                COMPONENTS ... [PROGRAMS ...] [DEPENDS ...] [RECOMMENDS ...]
#                [SUGGESTS ...] [CONTROL files...] [ALL])
# A package, with its copyright, changelog and lintian's overrides. PROGRAMS get
# man pages and completion. CONTROL: maintainer scripts and the like. ALL: it
# runs on every architecture. A macro, because CPack reads the variables of this
# scope.
macro(ucudnn_package NAME)
  cmake_parse_arguments(P "ALL" "SECTION;SUMMARY;DESCRIPTION"
    "COMPONENTS;PROGRAMS;DEPENDS;RECOMMENDS;SUGGESTS;CONTROL" ${ARGN})
  if(P_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "package ${NAME}: unknown: ${P_UNPARSED_ARGUMENTS}")
  endif()
  set(FILES ${PROJECT_BINARY_DIR}/packages/${NAME})
  set(PACKAGE ${NAME})
  configure_file(${UCUDNN_PACKAGES}/changelog.in ${FILES}/changelog.Debian)
  configure_file(${PROJECT_SOURCE_DIR}/CHANGELOG.md ${FILES}/changelog COPYONLY)
  ucudnn_package_files(${NAME} CODE
    "execute_process(COMMAND gzip -9nkf changelog.Debian changelog
                     WORKING_DIRECTORY ${FILES} COMMAND_ERROR_IS_FATAL ANY)")
  ucudnn_package_files(${NAME}
    FILES ${FILES}/changelog.Debian.gz ${FILES}/changelog.gz
          ${UCUDNN_PACKAGES}/copyright
    DESTINATION share/doc/${NAME})
  if(P_PROGRAMS)
    list(JOIN P_PROGRAMS " " PROGRAMS)
    ucudnn_package_files(${NAME} CODE
      "execute_process(COMMAND bash ${UCUDNN_PACKAGES}/documents.sh
                               ${PROJECT_BINARY_DIR}/bin ${FILES}/share ${PROGRAMS}
                       COMMAND_ERROR_IS_FATAL ANY)")
    ucudnn_package_files(${NAME} DIRECTORY ${FILES}/share DESTINATION .)
  endif()
  if(EXISTS ${UCUDNN_PACKAGES}/${NAME}.lintian)
    ucudnn_package_files(${NAME}
      FILES ${UCUDNN_PACKAGES}/${NAME}.lintian RENAME ${NAME}
      DESTINATION share/lintian/overrides)
  endif()

  string(TOUPPER ${NAME} KEY)
  foreach(COMPONENT ${P_COMPONENTS} ${NAME}-site)
    string(TOUPPER ${COMPONENT} UPPER)
    set(CPACK_COMPONENT_${UPPER}_GROUP ${NAME})
    list(APPEND CPACK_COMPONENTS_ALL ${COMPONENT})
  endforeach()
  foreach(RELATION DEPENDS RECOMMENDS SUGGESTS)
    list(JOIN P_${RELATION} ", " CPACK_DEBIAN_${KEY}_PACKAGE_${RELATION})
  endforeach()
  set(CPACK_DEBIAN_${KEY}_PACKAGE_NAME ${NAME})
  set(CPACK_DEBIAN_${KEY}_PACKAGE_SECTION ${P_SECTION})
  set(CPACK_DEBIAN_${KEY}_DESCRIPTION "${P_SUMMARY}\n${P_DESCRIPTION}")
  set(CPACK_DEBIAN_${KEY}_PACKAGE_CONTROL_EXTRA "${P_CONTROL}")
  if(P_ALL)
    set(CPACK_DEBIAN_${KEY}_PACKAGE_ARCHITECTURE all)
    set(CPACK_DEBIAN_${KEY}_PACKAGE_SHLIBDEPS OFF)
  endif()
endmacro()

# ucudnn_daemon_package(NAME SETTINGS file STATE folder ...): a package with the
# unit NAME.service, its user, its environment and its settings. Purging it
# removes the folder.
macro(ucudnn_daemon_package NAME)
  cmake_parse_arguments(D "" "SETTINGS;STATE" "" ${ARGN})
  if(NOT "${D_STATE}" MATCHES "^var/[a-z]+/ucudnn[a-z-]*$")
    message(FATAL_ERROR "purging ${NAME} would remove /${D_STATE}")
  endif()
  set(FILES ${PROJECT_BINARY_DIR}/packages/${NAME})
  set(PACKAGE ${NAME})
  foreach(SCRIPT postinst prerm postrm)
    configure_file(${UCUDNN_PACKAGES}/daemon.${SCRIPT} ${FILES}/${SCRIPT} @ONLY)
  endforeach()
  file(CONFIGURE OUTPUT ${FILES}/conffiles CONTENT
    "/etc/default/${NAME}\n/etc/ucudnn/${D_SETTINGS}\n")
  ucudnn_package_files(${NAME} FILES ${UCUDNN_UNITS}/${NAME}.service
    DESTINATION /lib/systemd/system)
  ucudnn_package_files(${NAME} FILES ${UCUDNN_UNITS}/${NAME}.sysusers
    RENAME ${NAME}.conf DESTINATION lib/sysusers.d)
  ucudnn_package_files(${NAME} FILES ${UCUDNN_UNITS}/${NAME}.default
    RENAME ${NAME} DESTINATION /etc/default)
  ucudnn_package_files(${NAME} FILES ${UCUDNN_UNITS}/${D_SETTINGS}
    DESTINATION /etc/ucudnn)
  ucudnn_package(${NAME} ${D_UNPARSED_ARGUMENTS} SECTION net
    DEPENDS "init-system-helpers (>= 1.52)"
            "systemd | systemd-standalone-sysusers | systemd-sysusers"
    CONTROL ${FILES}/postinst ${FILES}/prerm ${FILES}/postrm ${FILES}/conffiles)
endmacro()

set(SAME_VERSION "(= ${PROJECT_VERSION}-1)")
ucudnn_package_files(ucudnn-coord
  FILES ${PROJECT_SOURCE_DIR}/deploy/monitoring/alerts.yaml
        ${PROJECT_SOURCE_DIR}/deploy/monitoring/grafana.json
  DESTINATION share/ucudnn/monitoring)
ucudnn_package_files(ucudnn-coord
  PROGRAMS ${PROJECT_SOURCE_DIR}/deploy/certificates.sh
  DESTINATION share/ucudnn)
ucudnn_daemon_package(ucudnn-coord
  COMPONENTS coordinator
  PROGRAMS ucudnn-coord
  SETTINGS coordinator.toml
  STATE var/lib/ucudnn
  RECOMMENDS openssl
  SUGGESTS postgresql prometheus
  SUMMARY "plans for training on unlike GPUs: the coordinator"
  DESCRIPTION "It stores what agents measure of convolutions, and serves optimal plans made
from the measurements over gRPC and REST, with a page to look at. Its
database is an SQLite file or PostgreSQL.")
ucudnn_daemon_package(ucudnn-agent
  COMPONENTS agent
  PROGRAMS ucudnn-agent
  SETTINGS agent.toml
  STATE var/cache/ucudnn-agent
  SUMMARY "plans for training on unlike GPUs: the agent of a node"
  DESCRIPTION "It measures convolutions on the GPUs of a node, or on its CPU, for a
coordinator, while no job uses them. NVIDIA's driver and cuDNN are loaded if
they are there.")
set(FILES ${PROJECT_BINARY_DIR}/packages/libucudnn0)
set(SHLIBS "")
foreach(LIBRARY libucudnn ucudnn_solve_shared ucudnn_conv_shared
                ucudnn_handle_shared)
  if(TARGET ${LIBRARY})
    get_target_property(SONAME ${LIBRARY} OUTPUT_NAME)
    get_target_property(SOVERSION ${LIBRARY} SOVERSION)
    string(APPEND SHLIBS
      "lib${SONAME} ${SOVERSION} libucudnn0 (>= ${PROJECT_VERSION})\n")
  endif()
endforeach()
file(CONFIGURE OUTPUT ${FILES}/shlibs CONTENT "${SHLIBS}")
file(CONFIGURE OUTPUT ${FILES}/triggers CONTENT "activate-noawait ldconfig\n")
ucudnn_package(libucudnn0
  COMPONENTS library
  SECTION libs
  RECOMMENDS "libcurl4 | libcurl3-gnutls"
  CONTROL ${FILES}/shlibs ${FILES}/triggers
  SUMMARY "plans for training on unlike GPUs: shared libraries"
  DESCRIPTION "Sessions of MPI jobs, solvers, planned convolutions, and cuDNN's functions
with divided batches: as a handle to compile with, and as a library to
preload into programs that are not compiled again.")
ucudnn_package(libucudnn-dev
  COMPONENTS development
  SECTION libdevel
  DEPENDS "libucudnn0 ${SAME_VERSION}"
  RECOMMENDS libopenmpi-dev
  SUMMARY "plans for training on unlike GPUs: development files"
  DESCRIPTION "Headers of sessions, solvers, planned convolutions and the cuDNN handle, for
pkg-config and CMake's find_package.")
set(SLURM ${PROJECT_SOURCE_DIR}/deploy/slurm)
ucudnn_package_files(ucudnn
  PROGRAMS ${SLURM}/prolog.sh ${SLURM}/epilog.sh ${SLURM}/task_prolog.sh
           ${SLURM}/hetjob.sbatch
  DESTINATION share/ucudnn/slurm)
ucudnn_package_files(ucudnn FILES ${SLURM}/common.sh
  DESTINATION share/ucudnn/slurm)
ucudnn_package_files(ucudnn PROGRAMS ${PROJECT_SOURCE_DIR}/deploy/quickstart.sh
  DESTINATION share/ucudnn/quickstart)
ucudnn_package_files(ucudnn
  FILES ${PROJECT_SOURCE_DIR}/deploy/resnet20_cifar.onnx
  DESTINATION share/ucudnn/quickstart)
# In the repository's folders, since programs and guides refer to them by these.
ucudnn_package_files(ucudnn
  FILES ${PROJECT_SOURCE_DIR}/docs/allocation.md
        ${PROJECT_SOURCE_DIR}/docs/glossary.md ${PROJECT_SOURCE_DIR}/docs/memory.md
  DESTINATION share/doc/ucudnn/docs)
ucudnn_package_files(ucudnn DIRECTORY ${PROJECT_SOURCE_DIR}/docs/guide
  DESTINATION share/doc/ucudnn/docs)
ucudnn_package(ucudnn
  COMPONENTS programs
  PROGRAMS ucudnn ucudnn-train
  SECTION science
  RECOMMENDS openmpi-bin
  SUGGESTS ucudnn-coord ucudnn-agent ucudnn-glpk python3-ucudnn
  SUMMARY "plans for training on unlike GPUs: the command"
  DESCRIPTION "The command ucudnn requests plans from a coordinator, or makes them from
files, and shows what the cluster does. ucudnn-train trains networks as they
say, on MPI ranks or on one.")
if(UCUDNN_WITH_GLPK)
  ucudnn_package(ucudnn-glpk
    COMPONENTS glpk
    PROGRAMS ucudnn-glpk
    SECTION science
    SUMMARY "plans for training on unlike GPUs: GLPK as the solver"
    DESCRIPTION "ucudnn-glpk solves the integer programmes that ucudnn solve --write-lp
writes, for --solver glpk. It links GLPK and so, as a whole, is under the GNU
General Public License, version 3 or later.")
endif()
set(FILES ${PROJECT_BINARY_DIR}/packages/python3-ucudnn)
foreach(SCRIPT postinst prerm)
  configure_file(${UCUDNN_PACKAGES}/python.${SCRIPT} ${FILES}/${SCRIPT} COPYONLY)
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/client/python/ucudnn
  DESTINATION lib/python3/dist-packages
  COMPONENT python3-ucudnn-site EXCLUDE_FROM_ALL
  PATTERN __pycache__ EXCLUDE)
ucudnn_package(python3-ucudnn
  ALL
  SECTION python
  DEPENDS "python3 (>= 3.9)" "libucudnn0 (>= ${PROJECT_VERSION})"
  SUGGESTS python3-matplotlib python3-mpi4py
  CONTROL ${FILES}/postinst ${FILES}/prerm
  SUMMARY "plans for training on unlike GPUs: Python"
  DESCRIPTION "The solvers, measurements and plans, plots of them, sessions of MPI jobs,
and uneven mini-batches and planned convolutions in PyTorch.")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ucudnn)
set(CPACK_PACKAGE_VENDOR ucudnn)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
    WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "ucudnn maintainers <ucudnn@localhost>")
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
