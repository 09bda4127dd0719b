<?php

declare(strict_types=1);

// Runs `artisan` of the application in a folder: php artisan.php FOLDER COMMAND...

use Illuminate\Contracts\Console\Kernel;
use Pillion\Laravel\Tests\Support\Laravel;
use Symfony\Component\Console\Input\ArgvInput;
use Symfony\Component\Console\Output\ConsoleOutput;

require_once __DIR__ . '/../autoload.php';

$arguments = $_SERVER['argv'];
$folder = array_splice($arguments, 1, 1)[0];
$input = new ArgvInput($arguments);
$kernel = Laravel::application($folder)->make(Kernel::class);
$status = $kernel->handle($input, new ConsoleOutput());
$kernel->terminate($input, $status);
exit($status);
