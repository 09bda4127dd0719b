<?php

declare(strict_types=1);

require_once __DIR__ . '/autoload.php';

// Starts the same servers as the extension's tests.
require __DIR__ . '/../../tests/php/Support/autoload.php';

// The tests' applications configure the sockets, so the environment sets none.
putenv('PILLION_SOCKET');
