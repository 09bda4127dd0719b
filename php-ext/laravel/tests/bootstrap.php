<?php

declare(strict_types=1);

// Composer's autoloader where there is one; otherwise one of our own.

$installed = __DIR__ . '/../vendor/autoload.php';
if (is_file($installed)) {
    require $installed;
} else {
    require __DIR__ . '/autoload.php';
}
// The library hands to a sidecar what the extension does itself.
$sidecar = getenv('PILLION');
if (!extension_loaded('pillion') && $sidecar !== false) {
    Pillion\Laravel\Tests\Support\Sidecar::start($sidecar);
}
