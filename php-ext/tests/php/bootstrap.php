<?php

declare(strict_types=1);

/*
 * The tests of the classes run with the extension, or, with PILLION_CONTRACT=library, with the
 * Composer library in plain PHP.
 */

$library = getenv('PILLION_CONTRACT') === 'library';
if ($library === extension_loaded('pillion')) {
    fwrite(STDERR, $library ? "The extension is loaded: the library is never asked for a class\n" : "The extension is not loaded: use php-ext/run-tests\n");
    exit(1);
}
if ($library) {
    require __DIR__ . '/../../library/autoload.php';
}

require __DIR__ . '/Support/autoload.php';
// It declares several classes.
require __DIR__ . '/Support/Tools.php';

if ($library) {
    // The library uses the built-in tools and MCP tools of the sidecar.
    $url = Pillion\Tests\Support\FakeServer::url();
    $sidecar = new Pillion\Tests\Support\SidecarProcess([
        ['label' => 'fake', 'url' => $url],
        ['label' => 'everything', 'url' => str_replace('/sse', '/everything', $url), 'tool_prefix' => 'all-'],
    ]);
    putenv("PILLION_SOCKET=$sidecar->socket");
    register_shutdown_function($sidecar->stop(...));
}
