<?php

declare(strict_types=1);

use App\Http\Controllers\ChatController;
use Illuminate\Support\Facades\Route;

Route::get('/', [ChatController::class, 'show']);
Route::get('/tools', [ChatController::class, 'tools']);
Route::post('/chat', [ChatController::class, 'sendMessage']);
Route::post('/approvals/{id}', [ChatController::class, 'decide']);
