<?php

declare(strict_types=1);

/*
 * Loads the classes of the library in applications without Composer. PHP calls this autoloader only
 * for classes that are not defined, so with the extension it loads nothing.
 */

spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, 'Pillion\\')) {
        $file = __DIR__ . '/src/' . strtr(substr($class, strlen('Pillion\\')), '\\', '/') . '.php';
        if (is_file($file)) {
            require $file;
        }
    }
});
