<?php

declare(strict_types=1);

// Debian's Laravel (php-laravel-framework), the package, and the library, whose worker is used with the
// extension, too.

require_once '/usr/share/php/Illuminate/autoload.php';
require_once __DIR__ . '/../../library/autoload.php';
spl_autoload_register(static function (string $class): void {
    $roots = ['Pillion\\Laravel\\Tests\\' => __DIR__ . '/', 'Pillion\\Laravel\\' => __DIR__ . '/../src/'];
    foreach ($roots as $prefix => $path) {
        if (str_starts_with($class, $prefix)) {
            $file = $path . strtr(substr($class, strlen($prefix)), '\\', '/') . '.php';
            if (is_file($file)) {
                require $file;
            }
            return;
        }
    }
});
