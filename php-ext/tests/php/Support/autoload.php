<?php

declare(strict_types=1);

// Loads the classes of this directory, one in each file.
spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, 'Pillion\\Tests\\Support\\')) {
        require __DIR__ . '/' . basename(strtr($class, '\\', '/')) . '.php';
    }
});
