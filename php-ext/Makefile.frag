# cargo knows what is out of date, so it is asked every time.
.PHONY: $(phplibdir)/pillion.so
# `make install DESTDIR=...` as everywhere else; PHP's own name for it works too.
INSTALL_ROOT = $(DESTDIR)
pillion_target = $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),$(builddir)/target)
$(phplibdir)/pillion.so:
	PHP=$(PHP_EXECUTABLE) PHP_CONFIG=$(PHP_CONFIG) \
	$(CARGO) build --release --locked --package pillion-php \
	    --manifest-path $(srcdir)/Cargo.toml --target-dir $(pillion_target)
	@mkdir -p $(phplibdir)
	cp $(pillion_target)/release/libpillion.so $@
