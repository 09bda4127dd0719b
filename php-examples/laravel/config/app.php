<?php

return [
    'name' => 'Pillion chat',
    'env' => env('APP_ENV', 'local'),
    'debug' => (bool) env('APP_DEBUG', true),
    'url' => env('APP_URL', 'http://localhost'),
    // This default key is only for the example on a local machine; a real application sets its own
    // key in .env.
    'key' => env('APP_KEY', 'base64:' . base64_encode(hash('sha256', __DIR__, true))),
    'cipher' => 'AES-256-CBC',
    'timezone' => 'UTC',
    'locale' => 'en',
    'fallback_locale' => 'en',
];
