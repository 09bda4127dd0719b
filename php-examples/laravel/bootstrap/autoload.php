<?php

declare(strict_types=1);

require_once __DIR__ . '/../vendor/autoload.php';

// Debian's package php-laravel-framework is not installed by Composer and has its own autoloader.
if (!class_exists(Illuminate\Foundation\Application::class)) {
    require_once '/usr/share/php/Illuminate/autoload.php';
}
