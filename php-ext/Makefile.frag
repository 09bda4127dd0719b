# cargo knows what is out of date, so it is asked every time.
.PHONY: $(phplibdir)/pillion.so
$(phplibdir)/pillion.so:
	PHP=$(PHP_EXECUTABLE) PHP_CONFIG=$(PHP_CONFIG) \
	$(CARGO) build --release --locked --package pillion-php \
	    --manifest-path $(srcdir)/Cargo.toml --target-dir $(builddir)/target
	@mkdir -p $(phplibdir)
	cp $(builddir)/target/release/libpillion.so $@
