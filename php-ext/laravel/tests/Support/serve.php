<?php

declare(strict_types=1);

// Handles a request of PHP's web server in the application in the folder $PILLION_TEST_APP, below
// the path $PILLION_TEST_BASE.

use Illuminate\Contracts\Http\Kernel;
use Illuminate\Foundation\Support\Providers\RouteServiceProvider;
use Illuminate\Http\Request;
use Pillion\Laravel\Tests\Support\ConsoleApp;
use Pillion\Laravel\Tests\Support\Laravel;

require_once __DIR__ . '/../autoload.php';

$folder = (string) getenv('PILLION_TEST_APP');
// Set like by a web server that sends all requests to index.php.
$_SERVER['SCRIPT_NAME'] = $_SERVER['PHP_SELF'] = getenv('PILLION_TEST_BASE') . '/index.php';
$_SERVER['SCRIPT_FILENAME'] = "$folder/public/index.php";
$app = Laravel::make($folder);
$kernel = $app->make(Kernel::class);
$request = Request::capture();
$app->instance('request', $request);
$kernel->bootstrap();
if ($app->routesAreCached()) {
    // Loads the cached routes, as in an application that defines routes.
    $app->register(RouteServiceProvider::class);
}
ConsoleApp::prepare($app);
$response = $kernel->handle($request);
$response->send();
$kernel->terminate($request, $response);
