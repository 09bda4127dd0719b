<?php

declare(strict_types=1);

require_once __DIR__ . '/../vendor/autoload.php';

// Debian's package php-laravel-framework is not Composer's: it has an autoloader of its own.
if (!class_exists(Illuminate\Foundation\Application::class)) {
    require_once '/usr/share/php/Illuminate/autoload.php';
}
