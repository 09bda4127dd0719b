<?php

declare(strict_types=1);

// Composer's autoloader where there is one; otherwise one of our own.

$installed = __DIR__ . '/../vendor/autoload.php';
if (is_file($installed)) {
    require $installed;
} else {
    require __DIR__ . '/autoload.php';
}

// What the extension's own tests start too.
foreach (['FakeLlm', 'FakeServer', 'FakeSidecar', 'ServerScript', 'SidecarProcess'] as $class) {
    require __DIR__ . "/../../tests/php/Support/$class.php";
}

// The library hands to a sidecar what the extension does itself.
if (!extension_loaded('pillion') && getenv('PILLION') !== false) {
    putenv('PILLION_SOCKET=' . Pillion\Laravel\Tests\Support\Sidecar::socket());
}
