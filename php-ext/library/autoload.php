<?php

declare(strict_types=1);

/*
 * Loads the library where there is no Composer. Where the extension is loaded its classes
 * are there already, and this is never asked for them.
 */

spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, 'Pillion\\')) {
        $file = __DIR__ . '/src/' . strtr(substr($class, strlen('Pillion\\')), '\\', '/') . '.php';
        if (is_file($file)) {
            require $file;
        }
    }
});
