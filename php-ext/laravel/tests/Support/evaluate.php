<?php

declare(strict_types=1);

// Runs code in the application in a folder, and prints what it returns as JSON: php evaluate.php FOLDER CODE

use Pillion\Laravel\Tests\Support\Laravel;

require_once __DIR__ . '/../autoload.php';

[, $folder, $code] = $_SERVER['argv'];
Laravel::application($folder);
try {
    echo json_encode(eval($code), JSON_THROW_ON_ERROR);
} catch (Throwable $e) {
    echo $e;
    exit(1);
}
