<?php

declare(strict_types=1);

// Loads Laravel, the package, and the library, whose worker is used with the extension, too. Laravel is the one of
// PILLION_LARAVEL_AUTOLOAD (an autoloader), of `composer install`, or Debian's (php-laravel-framework).

$laravel = (string) getenv('PILLION_LARAVEL_AUTOLOAD');
$installed = __DIR__ . '/../vendor/autoload.php';
if ($laravel === '' && is_file($installed)) {
    require_once $installed;
    return;
}

require_once $laravel !== '' ? $laravel : '/usr/share/php/Illuminate/autoload.php';
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
