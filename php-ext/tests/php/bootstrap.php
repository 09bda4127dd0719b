<?php

declare(strict_types=1);

if (!extension_loaded('pillion')) {
    fwrite(STDERR, "The extension is not loaded: use php-ext/run-tests\n");
    exit(1);
}

require __DIR__ . '/Support/FakeServer.php';
require __DIR__ . '/Support/FastCgi.php';
require __DIR__ . '/Support/Fpm.php';
require __DIR__ . '/Support/FpmPool.php';
require __DIR__ . '/Support/Peer.php';
require __DIR__ . '/Support/Process.php';
require __DIR__ . '/Support/SessionServer.php';
require __DIR__ . '/Support/SidecarProcess.php';
require __DIR__ . '/Support/Tools.php';
require __DIR__ . '/Support/Upper.php';
