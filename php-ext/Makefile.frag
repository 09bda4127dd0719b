# cargo knows what is out of date, so it is asked every time. But not by `make install`, which
# is often root's, who may have no toolchain: it installs what was built.
ifneq ($(MAKECMDGOALS),install)
.PHONY: $(phplibdir)/pillion.so
endif
# `make install DESTDIR=...` as everywhere else; PHP's own name for it works too.
INSTALL_ROOT = $(DESTDIR)
pillion_target = $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),$(builddir)/target)
$(phplibdir)/pillion.so:
	PHP=$(PHP_EXECUTABLE) PHP_CONFIG=$(PHP_CONFIG) \
	$(CARGO) build --release --locked --package pillion-php \
	    --manifest-path $(srcdir)/Cargo.toml --target-dir $(pillion_target)
	@mkdir -p $(phplibdir)
	cp $(pillion_target)/release/libpillion.so $@
