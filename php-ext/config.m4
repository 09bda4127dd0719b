dnl phpize && ./configure && make && make install: cargo does the work, with the
dnl php-config that phpize was called for.

PHP_ARG_ENABLE([pillion],
  [whether to enable Pillion],
  [AS_HELP_STRING([--enable-pillion], [Enable Pillion])],
  [yes])

if test "$PHP_PILLION" != "no"; then
  AC_PATH_PROG([CARGO], [cargo], [no])
  if test "$CARGO" = "no"; then
    AC_MSG_ERROR([cargo was not found: install a Rust toolchain (1.95 or later)])
  fi
  dnl Where it is: the build takes no name to look for.
  PHP_CONFIG=`command -v "$PHP_CONFIG"`
  PHP_SUBST([CARGO])
  PHP_SUBST([PHP_CONFIG])
  PHP_ADD_MAKEFILE_FRAGMENT([$abs_srcdir/Makefile.frag], [$abs_srcdir], [$abs_builddir])
  dnl Where make puts it. configure makes the directories that are named, and complains without one.
  PHP_ADD_BUILD_DIR([modules])
  PHP_MODULES="$PHP_MODULES \$(phplibdir)/pillion.so"
fi
